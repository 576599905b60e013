"""The bench's producer against servers that misbehave: what went wrong is reported, never swallowed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchmarks.load.producer import NUMBER, as_fast_as_answered

GOOD = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}"
BAD = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 20\r\n\r\n<html>no JSON</html>"


@asynccontextmanager
async def server(
    *answers: bytes, heads: list[str] | None = None, bodies: list[str] | None = None
) -> AsyncIterator[str]:
    """Gives these answers in turn to each connection's requests, and closes it when there are no more."""
    heard = [] if heads is None else heads
    read = [] if bodies is None else bodies

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for answer in answers:
                heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
                read.append((await reader.readexactly(2)).decode())
                writer.write(answer)
                await writer.drain()
        writer.close()

    running = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with running:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/events"


async def load(url: str, *, count: int, headers: str = "") -> dict[str, Any]:
    running = as_fast_as_answered(url=url, key="k", bodies=["{}"], count=count, at_once=1, headers=headers)
    return await asyncio.wait_for(running, 60)


@pytest.mark.asyncio
async def test_a_load_run_counts_its_answers() -> None:
    async with server(*[GOOD] * 10) as url:
        result = await load(url, count=10)
    assert (result["refusals"], result["last"]) == ({}, "{}")


@pytest.mark.asyncio
async def test_each_request_has_a_number_of_its_own() -> None:
    heads: list[str] = []
    async with server(*[GOOD] * 3, heads=heads) as url:
        await load(url, count=3, headers=f"Idempotency-Key: {NUMBER}\r\n")
    sent = [line for head in heads for line in head.splitlines() if line.startswith("Idempotency-Key: ")]
    assert (len(sent), len(set(sent))) == (3, 3)
    assert f"Idempotency-Key: {NUMBER}" not in sent


@pytest.mark.asyncio
async def test_bodies_take_turns_and_parameters_are_sent() -> None:
    heads: list[str] = []
    bodies: list[str] = []
    async with server(*[GOOD] * 4, heads=heads, bodies=bodies) as url:
        running = as_fast_as_answered(url=f"{url}?a=b", key="k", bodies=["{}", "[]"], count=4, at_once=1)
        await asyncio.wait_for(running, 60)
    assert {head.splitlines()[0] for head in heads} == {"POST /events?a=b HTTP/1.1"}
    assert sorted(bodies) == ["[]", "[]", "{}", "{}"]


@pytest.mark.asyncio
async def test_an_answer_that_is_no_success_is_kept_with_its_body() -> None:
    async with server(GOOD, BAD, BAD, GOOD) as url:
        result = await load(url, count=4)
    assert result["refusals"] == {"503": {"count": 2, "body": "<html>no JSON</html>"}}


@pytest.mark.asyncio
async def test_a_server_that_closes_the_connection_ends_the_run_and_is_said_to_have() -> None:
    async with server(GOOD) as url:
        result = await load(url, count=5)
    assert result["refusals"] == {"closed": {"count": 1, "body": "The server closed the connection."}}
