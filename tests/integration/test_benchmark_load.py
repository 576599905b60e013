"""The bench's producer against servers that misbehave: what went wrong is reported, never swallowed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchmarks.load import as_fast_as_answered

GOOD = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}"
BAD = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 20\r\n\r\n<html>no JSON</html>"


@asynccontextmanager
async def server(*answers: bytes) -> AsyncIterator[str]:
    """Gives these answers in turn to each connection's requests, and closes it when there are no more."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for answer in answers:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(2)
                writer.write(answer)
                await writer.drain()
        writer.close()

    running = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with running:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/events"


async def load(url: str, *, count: int) -> dict[str, Any]:
    return await asyncio.wait_for(as_fast_as_answered(url=url, key="k", body="{}", count=count, at_once=1), 60)


@pytest.mark.asyncio
async def test_a_load_run_counts_its_answers() -> None:
    async with server(*[GOOD] * 10) as url:
        result = await load(url, count=10)
    assert (result["refusals"], result["last"]) == ({}, "{}")


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
