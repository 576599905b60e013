"""deliveries/pump/transport.py on real sockets: the bytes of a request, and which connection carries it."""

import asyncio

import httpx
import pytest

from deliveries.send import Answered, send
from tests.integration.deliveries.pump.raw_receiver import (
    OK,
    Answer,
    hangs_up,
    in_turn,
    kind,
    outgoing,
    receiving,
    resets,
    sent_to,
    status,
    transport,
    writes,
)

pytestmark = pytest.mark.asyncio


async def test_w01_a_request_is_a_post_with_our_headers_and_exactly_our_bytes() -> None:
    sent, receiver = await sent_to(OK)
    assert receiver.requests == [
        b"POST /hook?a=1 HTTP/1.1\r\n"
        b"host: 127.0.0.1:%d\r\n"
        b"webhook-id: evt_1\r\n"
        b"content-type: application/json\r\n"
        b"user-agent: ours/1\r\n"
        b"accept: */*\r\n"
        b"accept-encoding: identity\r\n"
        b"content-length: 14\r\n"
        b"\r\n"
        b'{"id":"evt_1"}' % receiver.port
    ]
    assert isinstance(sent, Answered)
    assert (sent.status_code, sent.body, sent.body_truncated, sent.address) == (200, b"ok", False, "127.0.0.1")
    assert sent.headers == (("Content-Length", "2"),)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rb"])
async def test_s08_a_header_that_holds_the_end_of_a_line_is_never_sent(value: str) -> None:
    async with receiving(OK) as receiver, transport() as carrier:
        request = outgoing(receiver.url)._replace(headers=[("X-Note", value)])
        assert kind(await send(request, transport=carrier)) == "internal"
        assert receiver.requests == []


async def test_a_receiver_s_own_accept_takes_the_place_of_ours() -> None:
    async with receiving(OK) as receiver, transport() as carrier:
        request = outgoing(receiver.url)._replace(headers=[("accept", "text/plain")])
        assert status(await send(request, transport=carrier)) == 200
    [asked] = receiver.requests
    assert asked.lower().count(b"\r\naccept:") == 1


async def test_w07_each_of_200_to_299_is_an_answer() -> None:
    async with receiving(OK) as receiver, transport() as carrier:
        for code in range(200, 300):
            # With a body each time: a 204 must not have one, and servers send it all the same.
            receiver.answer = writes(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % code)
            assert status(await send(outgoing(receiver.url), transport=carrier)) == code
    assert len(receiver.requests) == 100


@pytest.mark.parametrize("code", [300, 301, 302, 303, 304, 305, 307, 308, 399])
async def test_w07_s04_a_redirect_is_an_answer_and_never_followed(code: int) -> None:
    async with receiving(OK) as elsewhere:
        sent, receiver = await sent_to(
            b"HTTP/1.1 %d X\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (code, elsewhere.url.encode())
        )
        assert status(sent) == code
        assert len(receiver.requests) == 1
        assert elsewhere.connection_count == 0


async def test_no_cookie_comes_back() -> None:
    async with (
        receiving(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nContent-Length: 0\r\n\r\n") as receiver,
        transport() as carrier,
    ):
        for _ in range(2):
            await send(outgoing(receiver.url), transport=carrier)
    assert receiver.requests[0] == receiver.requests[1]


async def test_a_proxy_named_by_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving(OK) as stranger:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, stranger.url)
        sent, _ = await sent_to(OK)
        assert status(sent) == 200
        assert stranger.connection_count == 0


async def test_a_connection_is_used_again() -> None:
    async with receiving(OK) as receiver, transport() as carrier:
        for _ in range(3):
            assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
    assert (receiver.connection_count, len(receiver.requests)) == (1, 3)


async def test_a_connection_is_not_used_again_after_a_body_was_cut_short() -> None:
    long = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000
    async with receiving(long) as receiver, transport() as carrier:
        for _ in range(2):
            assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
    assert receiver.connection_count == 2


async def test_an_idle_connection_that_was_closed_fails_no_attempt() -> None:
    async with receiving(writes(OK, close=True)) as receiver, transport() as carrier:
        for _ in range(5):
            assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
    assert receiver.connection_count == 5


@pytest.mark.parametrize("ends", [hangs_up, resets])
async def test_a_close_that_crosses_our_request_on_the_wire_fails_no_attempt(ends: Answer) -> None:
    async with receiving(in_turn(writes(OK), ends, writes(OK))) as receiver, transport() as carrier:
        for _ in range(2):
            assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
    assert receiver.connection_count == 2
    assert len(receiver.requests) == 3
    assert receiver.requests[1] == receiver.requests[2]


async def test_the_second_try_is_on_a_new_connection_even_with_idle_ones_left() -> None:
    everyone_is_here = asyncio.Barrier(2)

    async def once_both_are_here(writer: asyncio.StreamWriter) -> None:
        await everyone_is_here.wait()
        writer.write(OK)

    async with receiving(once_both_are_here) as receiver, transport() as carrier:
        await asyncio.gather(*(send(outgoing(receiver.url), transport=carrier) for _ in range(2)))
        assert receiver.connection_count == 2
        receiver.answer = in_turn(hangs_up, writes(OK))
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
    assert receiver.connection_count == 3


async def test_there_is_no_third_try() -> None:
    async with receiving(in_turn(writes(OK), hangs_up, hangs_up)) as receiver, transport() as carrier:
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
        assert kind(await send(outgoing(receiver.url), transport=carrier)) == "reset"
    assert len(receiver.requests) == 3


@pytest.mark.parametrize("heard", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_there_is_no_second_try_once_anything_of_an_answer_was_heard(heard: bytes) -> None:
    async with receiving(in_turn(writes(OK), writes(heard, close=True))) as receiver, transport() as carrier:
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
        assert kind(await send(outgoing(receiver.url), transport=carrier)) == "reset"
    assert len(receiver.requests) == 2


async def test_a_connection_is_not_used_again_before_its_answer_was_read() -> None:
    async with receiving(OK) as receiver, transport() as carrier:
        first = await carrier.handle_async_request(httpx.Request("POST", receiver.url, content=b"{}"))
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
        assert await first.aread() == b"ok"
        await first.aclose()
        assert receiver.connection_count == 2
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
        assert (receiver.connection_count, len(receiver.requests)) == (2, 3)


async def test_a_connection_that_spoke_while_nobody_asked_is_left() -> None:
    asked, spoken = asyncio.Event(), asyncio.Event()

    async def speaks_again(writer: asyncio.StreamWriter) -> None:
        await writes(OK)(writer)
        await asked.wait()
        await writes(b"HTTP/1.1 500 Not yours\r\nContent-Length: 0\r\n\r\n")(writer)
        spoken.set()

    async with receiving(in_turn(speaks_again, writes(OK))) as receiver, transport() as carrier:
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
        asked.set()
        await spoken.wait()
        for _ in range(5):  # the loop reads what has arrived
            await asyncio.sleep(0)
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
    assert receiver.connection_count == 2
