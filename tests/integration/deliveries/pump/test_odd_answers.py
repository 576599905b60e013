"""deliveries/pump/wire.py on real sockets: answers that are large, broken, early or no HTTP."""

import asyncio
import gzip
import socket
import struct
import time
from contextlib import suppress

import pytest
import uvloop

from deliveries.send import Answered, Unanswered, send
from tests.integration.deliveries.pump.raw_receiver import (
    OK,
    Answer,
    hangs_up,
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


async def test_w11_interim_answers_without_end_are_no_answer() -> None:
    async def streams(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            await writer.drain()

    sent, receiver = await sent_to(streams)
    assert kind(sent) == "bad_response"
    assert (len(receiver.requests), receiver.connection_count) == (1, 1)
    some, _ = await sent_to(writes(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 5, OK))
    assert isinstance(some, Answered)


async def test_w11_a_body_of_100_mb_is_cut_short_and_its_status_counts() -> None:
    written = 0

    async def pours(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while written < 100_000_000:
            writer.write(b"x" * 65536)
            await writer.drain()
            written += 65536

    sent, receiver = await sent_to(pours)
    assert isinstance(sent, Answered)
    assert (sent.status_code, sent.body, sent.body_truncated) == (200, b"x" * 8192, True)
    assert len(receiver.requests) == 1
    assert written < 20_000_000


@pytest.mark.parametrize("size", [8192, 8193, 65536])
async def test_w11_a_body_within_the_limit_is_read_to_its_end_and_the_connection_kept(size: int) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with receiving(answer) as receiver, transport() as carrier:
        for _ in range(2):
            sent = await send(outgoing(receiver.url), transport=carrier)
            assert isinstance(sent, Answered)
            assert (len(sent.body), sent.body_truncated) == (8192, size > 8192)
    assert receiver.connection_count == 1


async def test_w11_a_gzip_bomb_is_never_unpacked() -> None:
    bomb = gzip.compress(b"\0" * 5_000_000)
    sent, _ = await sent_to(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb
    )
    assert isinstance(sent, Answered)
    assert sent.body == bomb[:8192].replace(b"\0", b"")


@pytest.mark.parametrize(
    ("answer", "code", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na\0b\0c", 200, b"abc"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\xfe\x80a", 200, b"\xff\xfe\x80a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", 204, b""),
        (OK + b" and something more", 200, b"ok"),
        (OK + OK, 200, b"ok"),
        (b"HTTP/1.1 500 Oh no\r\nContent-Length: 0\r\n\r\n", 500, b""),
    ],
)
async def test_w11_an_odd_answer_is_one_answer(answer: bytes, code: int, body: bytes) -> None:
    sent, receiver = await sent_to(answer)
    assert isinstance(sent, Answered), sent
    assert (sent.status_code, sent.body, len(receiver.requests)) == (code, body, 1)


@pytest.mark.parametrize(
    "head", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]
)
async def test_w11_an_answer_that_ends_with_its_connection_is_complete(head: bytes) -> None:
    sent, receiver = await sent_to(writes(head, b"ok", close=True))
    assert isinstance(sent, Answered), sent
    assert (sent.status_code, sent.body, len(receiver.requests)) == (200, b"ok", 1)


async def test_w11_an_upgrade_nobody_asked_for_is_no_success() -> None:
    sent, receiver = await sent_to(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", timeout_seconds=0.3
    )
    assert status(sent) == 101
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nnot a length\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\0" * 100,
    ],
)
async def test_w11_an_answer_that_is_no_http_is_one_bad_response(answer: bytes) -> None:
    sent, receiver = await sent_to(answer)
    assert kind(sent) == "bad_response"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        hangs_up,
        resets,
        writes(b"HTTP/1.1 200 OK\r\nContent-", close=True),
        writes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", close=True),
        writes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", close=True),
    ],
)
async def test_w11_a_connection_that_ends_early_is_one_reset(answer: Answer) -> None:
    sent, receiver = await sent_to(answer)
    assert kind(sent) == "reset"
    assert len(receiver.requests) == 1


async def test_w11_a_reset_after_the_headers_is_one_reset() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        await writes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")(writer)
        await resets(writer)

    sent, receiver = await sent_to(answer)
    assert kind(sent) == "reset"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(("greeting", "error_kind"), [(None, "reset"), (b"220 mail.test ESMTP\r\n", "bad_response")])
async def test_a_receiver_that_resets_or_speaks_before_it_is_asked_is_asked_once(
    greeting: bytes | None, error_kind: str
) -> None:
    """Regression: while the loop was busy, a reset counted as our own failure, and a greeting was dialled anew."""
    dialled: list[socket.socket] = []

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                dialled.append(server.accept()[0])
                if greeting:
                    dialled[-1].sendall(greeting)
                else:
                    dialled[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    dialled[-1].close()

    async def ask(port: int) -> set[str]:
        async def be_busy() -> None:
            while True:
                time.sleep(0.005)  # noqa: ASYNC251  (meanwhile the network goes on)
                await asyncio.sleep(0)

        busy = asyncio.create_task(be_busy())
        async with transport() as carrier:
            url = f"http://127.0.0.1:{port}/"
            kinds = {kind(await send(outgoing(url, timeout_seconds=30), transport=carrier)) for _ in range(20)}
        busy.cancel()
        return kinds

    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = asyncio.create_task(asyncio.to_thread(serve, server))
        # On the loop that workers use: it looks for the peer's name only when it is asked.
        kinds = await asyncio.to_thread(lambda: uvloop.run(ask(server.getsockname()[1])))
        server.shutdown(socket.SHUT_RDWR)
        await serving
    for connection in dialled:
        connection.close()
    assert (kinds, len(dialled)) == ({error_kind}, 20)


async def test_nobody_listening_is_a_failed_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with transport() as carrier:
        sent = await send(outgoing(f"http://127.0.0.1:{port}/"), transport=carrier)
    assert kind(sent) == "connect_failed"
    assert isinstance(sent, Unanswered)
    assert sent.detail == "The receiver did not accept the connection. (connection refused)"
