"""deliveries/pump/transport.py and send.py against real sockets on loopback that speak odd HTTP."""

import asyncio
import gzip
import resource
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, ip_network
from pathlib import Path

import httpx
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.load.receiver import patient_receiver
from deliveries.pump.transport import GuardedTransport, Lookup
from deliveries.send import Answered, Outgoing, Unanswered, send
from subscriptions.guards.urls import ANY_PORT, Policy, check_addresses

pytestmark = pytest.mark.asyncio

LOOPBACK_OPEN = Policy(allowed_networks=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
CLOSED = Policy(allow_http=True, allowed_ports=ANY_PORT)
PUBLIC = "93.184.215.14"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """Reads requests off raw connections and lets a test write whatever bytes it likes in return."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.connection_count = 0
        self.port = 0
        self.stop_listening: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                await self.answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()


@asynccontextmanager
async def receiving(answer: Answer | bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(writes(answer) if isinstance(answer, bytes) else answer)
    connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[writer] = asyncio.create_task(receiver.serve(reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    receiver.port, receiver.stop_listening = server.sockets[0].getsockname()[1], server.close
    try:
        yield receiver
    finally:
        server.close()
        for writer, task in connections.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*connections.values(), return_exceptions=True)


def writes(*parts: bytes, close: bool = False) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if close:
            writer.close()

    return answer


def in_turn(*answers: Answer) -> Answer:
    remaining = iter(answers)

    async def answer(writer: asyncio.StreamWriter) -> None:
        await next(remaining)(writer)

    return answer


async def says_nothing(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def resets(writer: asyncio.StreamWriter) -> None:
    # Lingering for zero seconds makes the kernel send RST instead of FIN.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def drips(*start: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        await writes(*start)(writer)
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.05)

    return answer


def answers_with(*addresses: str) -> Lookup:
    async def lookup(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return lookup


@asynccontextmanager
async def transport(
    policy: Policy = LOOPBACK_OPEN,
    *,
    lookup: Lookup | None = None,
    proxy_url: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[GuardedTransport]:
    made = GuardedTransport(policy=policy, lookup=lookup, proxy_url=proxy_url, tls=tls)
    try:
        yield made
    finally:
        await made.aclose()


def outgoing(url: str, *, timeout_seconds: float = 5, body: bytes = b'{"id":"evt_1"}') -> Outgoing:
    headers = (("webhook-id", "evt_1"), ("content-type", "application/json"), ("user-agent", "ours/1"))
    return Outgoing(url=url, headers=headers, body=body, timeout_seconds=timeout_seconds)


async def sent_to(answer: Answer | bytes, *, timeout_seconds: float = 5) -> tuple[Answered | Unanswered, Receiver]:
    async with receiving(answer) as receiver, transport() as carrier:
        return await send(outgoing(receiver.url, timeout_seconds=timeout_seconds), transport=carrier), receiver


def kind(sent: Answered | Unanswered) -> str:
    assert isinstance(sent, Unanswered), sent
    assert "127.0.0.1" not in sent.detail
    return sent.error_kind


def status(sent: Answered | Unanswered) -> int:
    assert isinstance(sent, Answered), sent
    return sent.status_code


# On the wire


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


# The deadline


@pytest.mark.parametrize(
    "answer",
    [
        says_nothing,
        drips(b"HTTP/1.1 200 OK\r\nX-Slow: "),
        drips(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        drips(b"HTTP/1.1 200 OK\r\n\r\n"),
        writes(b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
async def test_w10_a_receiver_that_does_not_finish_is_cut_off_at_the_deadline(answer: Answer) -> None:
    sent, receiver = await sent_to(answer, timeout_seconds=0.3)
    assert kind(sent) == "read_timeout"
    assert 300 <= sent.duration_ms < 1000
    assert len(receiver.requests) == 1


async def test_w10_a_receiver_that_never_answers_holds_nobody_up() -> None:
    all_here = asyncio.Barrier(51)

    async def keeps_waiting(writer: asyncio.StreamWriter) -> None:
        await all_here.wait()
        await says_nothing(writer)

    async with receiving(keeps_waiting) as silent, receiving(OK) as quick, transport() as carrier:
        waiting = [asyncio.create_task(send(outgoing(silent.url), transport=carrier)) for _ in range(50)]
        await all_here.wait()
        sent = [await send(outgoing(quick.url), transport=carrier) for _ in range(10)]
        assert [status(one) for one in sent] == [200] * 10
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        stopped = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in stopped)


async def test_w10_a_name_that_never_resolves_is_cut_off_too() -> None:
    async def never(_host: str, _port: int) -> list[str]:
        return await asyncio.Event().wait() and []

    async with transport(lookup=never) as carrier:
        sent = await send(outgoing("http://slow.example/", timeout_seconds=0.3), transport=carrier)
    assert kind(sent) == "connect_timeout"


async def test_w10_a_handshake_that_never_ends_is_a_connection_that_never_came() -> None:
    async with receiving(says_nothing) as receiver, transport() as carrier:
        url = receiver.url.replace("http:", "https:")
        sent = await send(outgoing(url, timeout_seconds=0.3), transport=carrier)
    assert (kind(sent), sent.address) == ("connect_timeout", None)


async def test_w10_a_receiver_that_never_reads_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel accepts, nobody reads
        port = deaf.getsockname()[1]
        async with transport() as carrier:
            big = outgoing(f"http://127.0.0.1:{port}/", timeout_seconds=0.3, body=b"x" * 1_000_000)
            assert kind(await send(big, transport=carrier)) == "read_timeout"


async def test_w10_one_that_never_reads_keeps_neither_the_connection_nor_the_body() -> None:
    """Regression: a connection with unsent bytes was closed politely, which it stays until they have been read."""
    with socket.socket() as deaf:
        # So small that our own buffers cannot hold the rest either.
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        async with transport() as carrier:
            url, body = f"http://127.0.0.1:{deaf.getsockname()[1]}/", b"x" * 250_000
            before = open_files()
            for _ in range(3):
                sent = await send(outgoing(url, timeout_seconds=0.2, body=body), transport=carrier)
                assert kind(sent) == "read_timeout"
            await asyncio.sleep(0)  # that is when they are closed
            assert open_files() == before


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_when_no_file_is_left_idle_connections_make_room() -> None:
    """Thousands of hosts within half a minute are more connections than some machines allow files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # In a process of its own: in this one it could be its accept that finds no file left.
    with patient_receiver() as (url, _):
        hosts = [url.replace("127.0.0.1", f"host-{number}.example") for number in range(60)]
        async with transport(lookup=answers_with("127.0.0.1")) as carrier:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 20, hard))
            try:
                sent = [await send(outgoing(host), transport=carrier) for host in hosts]
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each.status_code if isinstance(each, Answered) else each for each in sent] == [200] * 60


# Odd answers


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


# Connections


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

    async def together(writer: asyncio.StreamWriter) -> None:
        await everyone_is_here.wait()
        writer.write(OK)

    async with receiving(together) as receiver, transport() as carrier:
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


# TLS


async def test_a_certificate_nobody_vouches_for_is_a_tls_failure(tmp_path: Path) -> None:
    server_side, _ = self_signed(tmp_path)
    async with receiving(OK, tls=server_side) as receiver, transport() as carrier:
        sent = await send(outgoing(f"https://127.0.0.1:{receiver.port}/"), transport=carrier)
    assert kind(sent) == "tls"
    assert isinstance(sent, Unanswered)
    assert "self-signed certificate" in sent.detail
    assert receiver.requests == []


async def test_a_certificate_for_another_name_is_a_tls_failure(tmp_path: Path) -> None:
    server_side, client_side = self_signed(tmp_path)
    async with (
        receiving(OK, tls=server_side) as receiver,
        transport(lookup=answers_with("127.0.0.1"), tls=client_side) as carrier,
    ):
        sent = await send(outgoing(f"https://other.example:{receiver.port}/"), transport=carrier)
    assert kind(sent) == "tls"
    assert receiver.requests == []


async def test_a_certificate_that_is_trusted_and_fits_is_an_answer(tmp_path: Path) -> None:
    server_side, client_side = self_signed(tmp_path)
    async with receiving(OK, tls=server_side) as receiver, transport(tls=client_side) as carrier:
        for _ in range(2):
            sent = await send(outgoing(f"https://127.0.0.1:{receiver.port}/"), transport=carrier)
            assert status(sent) == 200
    assert receiver.connection_count == 1


async def test_a_plain_server_behind_an_https_url_is_a_tls_failure() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, transport() as carrier:
        port = server.sockets[0].getsockname()[1]
        assert kind(await send(outgoing(f"https://127.0.0.1:{port}/"), transport=carrier)) == "tls"


def self_signed(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server with its own certificate for 127.0.0.1, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    both = folder / "receiver.pem"
    both.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(both)
    return server_side, ssl.create_default_context(cafile=str(both))


# The wall


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "2130706433", "127.1", "0x7f000001"])
async def test_s01_no_spelling_of_loopback_is_dialled(host: str) -> None:
    async with receiving(OK) as receiver, transport(CLOSED) as carrier:
        sent = await send(outgoing(f"http://{host}:{receiver.port}/"), transport=carrier)
    assert (kind(sent), sent.address) == ("refused_address", None)
    assert receiver.connection_count == 0


@pytest.mark.parametrize("answers", [("127.0.0.1", PUBLIC), (PUBLIC, "127.0.0.1"), (PUBLIC, "::ffff:127.0.0.1")])
async def test_s02_a_name_with_any_refused_answer_is_refused_whole(answers: tuple[str, ...]) -> None:
    async with receiving(OK) as receiver, transport(CLOSED, lookup=answers_with(*answers)) as carrier:
        url = f"http://mixed.example:{receiver.port}/"
        for sent in await asyncio.gather(*(send(outgoing(url), transport=carrier) for _ in range(5))):
            assert (kind(sent), sent.address) == ("dns", None)
    assert receiver.connection_count == 0


async def test_s03_a_name_that_rebinds_is_refused_at_the_dial() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def rebinding(_host: str, _port: int) -> list[str]:
        return next(answers)

    async with receiving(OK) as receiver, transport(CLOSED, lookup=rebinding) as carrier:
        checked = await rebinding("rebinds.example", receiver.port)
        check_addresses(checked, scheme="http", port=receiver.port, policy=CLOSED)

        sent = await send(outgoing(f"http://rebinds.example:{receiver.port}/"), transport=carrier)
    assert (kind(sent), sent.address) == ("dns", None)
    assert receiver.connection_count == 0


@pytest.mark.parametrize("dialled", [["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]])
async def test_s03_an_address_that_changes_after_the_lookup_was_judged_is_refused_at_the_dial(
    dialled: list[str],
) -> None:
    class Shifting(list[str]):
        """Public to whoever looks first, private from then on."""

        looks = 0

        def __iter__(self) -> Iterator[str]:
            self.looks += 1
            return iter([PUBLIC] if self.looks == 1 else dialled)

    async def lookup(_host: str, _port: int) -> list[str]:
        return Shifting([PUBLIC])

    async with receiving(OK) as receiver, transport(CLOSED, lookup=lookup) as carrier:
        sent = await send(outgoing(f"http://shifts.example:{receiver.port}/"), transport=carrier)
    assert (kind(sent), sent.address) == ("dns", None)
    assert receiver.connection_count == 0


async def test_a_name_wholly_inside_an_opened_network_is_dialled_over_http_on_any_port() -> None:
    async with receiving(OK) as receiver, transport(lookup=answers_with("127.0.0.1")) as carrier:
        sent = await send(outgoing(f"http://localhost:{receiver.port}/"), transport=carrier)
    assert (status(sent), sent.address) == (200, "127.0.0.1")


async def test_s07_a_name_outside_them_keeps_to_https_and_the_ports_on_the_list() -> None:
    asked: list[tuple[str, int]] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return [PUBLIC]

    async with transport(lookup=lookup) as carrier:
        for url in ("http://public.example/", "https://public.example:22/"):
            assert kind(await send(outgoing(url), transport=carrier)) == "refused_address"
    assert asked == [("public.example", 80), ("public.example", 22)]


@pytest.mark.parametrize("failure", [socket.gaierror(socket.EAI_NONAME, "unknown"), None])
async def test_a_name_without_addresses_is_a_dns_failure(failure: OSError | None) -> None:
    async def lookup(_host: str, _port: int) -> list[str]:
        if failure:
            raise failure
        return []

    async with transport(CLOSED, lookup=lookup) as carrier:
        assert kind(await send(outgoing("https://nowhere.example/"), transport=carrier)) == "dns"


async def test_an_egress_proxy_carries_the_request_and_resolves_the_name() -> None:
    async def lookup(_host: str, _port: int) -> list[str]:
        raise AssertionError("names are the proxy's to resolve")

    async with receiving(OK) as proxy:
        policy = Policy(allow_http=True, allowed_networks=(ip_network("192.168.0.0/16"),))
        async with transport(policy, lookup=lookup, proxy_url=f"http://127.0.0.1:{proxy.port}") as carrier:
            sent = await send(outgoing("http://hooks.example/a"), transport=carrier)
            assert (status(sent), sent.address) == (200, None)
            assert proxy.requests[0].startswith(b"POST http://hooks.example/a HTTP/1.1\r\nhost: hooks.example\r\n")

            for url in ("http://10.0.0.1/", "http://hooks.example:22/", "https://[::1]/"):
                assert kind(await send(outgoing(url), transport=carrier)) == "refused_address"
    assert len(proxy.requests) == 1


async def test_an_egress_proxy_tunnels_https(tmp_path: Path) -> None:
    server_side, client_side = self_signed(tmp_path)
    tunnels: list[bytes] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async with receiving(OK, tls=server_side) as receiver:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tunnels.append(await reader.readuntil(b"\r\n\r\n"))
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", receiver.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

        async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy:
            proxy_url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            async with transport(proxy_url=proxy_url, tls=client_side) as carrier:
                for _ in range(2):
                    sent = await send(outgoing(f"https://127.0.0.1:{receiver.port}/"), transport=carrier)
                    assert (status(sent), sent.address) == (200, None)
    assert [tunnel.partition(b"\r\n")[0] for tunnel in tunnels] == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % receiver.port]


async def test_a_proxy_that_refuses_to_connect_is_a_failed_connection() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        proxy_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with transport(Policy(), proxy_url=proxy_url) as carrier:
            assert kind(await send(outgoing("https://hooks.example/"), transport=carrier)) == "connect_failed"
