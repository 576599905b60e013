"""A failed attempt says what was seen (W19): at real sockets, on both event loops."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from deliveries.pump.dial_guard import Lookup
from deliveries.pump.transport import GuardedTransport
from deliveries.send import Answered, Unanswered, send
from subscriptions.guards.urls import Policy
from tests.integration.deliveries.pump.raw_receiver import (
    LOOPBACK_OPEN,
    OK,
    Answer,
    drips,
    hangs_up,
    kind,
    outgoing,
    receiving,
    resets,
    says_nothing,
    self_signed,
    sent_to,
    status,
    transport,
    writes,
)

pytestmark = pytest.mark.asyncio

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def detail(sent: Answered | Unanswered) -> str:
    assert isinstance(sent, Unanswered), sent
    assert len(sent.detail) <= 255  # what an attempt has room for
    assert sent.detail.isprintable()
    return sent.detail


def specifics(sent: Answered | Unanswered) -> str:
    return detail(sent).partition("(")[2].removesuffix(")")


# An answer that is not HTTP


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (
            b"SSH-2.0-OpenSSH_9.6\r\n",
            'Expected HTTP/, RTSP/ or ICE/; received "SSH-2.0-OpenSSH_9.6\\r\\n"',
        ),
        (b'\0\x15"\\\xff', 'Expected HTTP/, RTSP/ or ICE/; received "\\x00\\x15\\"\\\\\\xff"'),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            'Invalid character in Content-Length; received "HTTP/1.1 200 OK\\r\\nContent-Length: many\\r\\n\\r\\n"',
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nnot a length\r\n",
            "Invalid character in chunk size; status 200",
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nNo, sorry",
            'Expected HTTP/, RTSP/ or ICE/; received "HTTP/1.1 100 Continue\\r\\n\\r\\nNo, sorry"',
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
            'one 1xx after another, and no answer; received "' + "HTTP/1.1 100 Continue\\r\\n\\r\\n" * 3 + 'HTT…"',
        ),
    ],
)
async def test_w19_an_answer_that_is_not_http_is_shown_with_the_parse_failure(answer: bytes, seen: str) -> None:
    sent, _ = await sent_to(answer)
    assert kind(sent) == "bad_response"
    assert specifics(sent) == seen


@pytest.mark.parametrize("answer", [b"\xff" * 5000, b"a" * 5000, b"HTTP/1.1 200 OK\r\n" + b"\xff" * 5000 + b"\r\n\r\n"])
async def test_w19_what_is_shown_of_it_is_bounded_and_printable(answer: bytes) -> None:
    sent, _ = await sent_to(answer)
    assert kind(sent) == "bad_response"
    assert specifics(sent).endswith('…"')


async def test_w19_custom_headers_that_a_receiver_echoes_are_not_shown() -> None:
    secret = "Bearer s3cr3t-token-of-acme"
    echo = b"you said: %b and %b" % (secret.encode(), secret.encode())
    async with receiving(echo) as receiver, transport() as carrier:
        request = outgoing(receiver.url)._replace(headers=[("webhook-id", "evt_1"), ("Authorization", secret)])
        sent = await send(request, transport=carrier)
    assert specifics(sent).endswith('received "you said: [redacted] and [redacted]"')


@pytest.mark.parametrize(
    "echo",
    [
        b"token s3cr3t-token/of-acme",
        b"token s3cr3t-token\\/of-acme",
        b"token s3cr3t-tok",
        b"token Bearer s3cr3t",
        b"token whsec_c2VjcmV0c2VjcmV0",
    ],
)
async def test_w19_nor_is_a_part_of_one_however_it_is_spelled(echo: bytes) -> None:
    async with receiving(echo) as receiver, transport() as carrier:
        request = outgoing(receiver.url)._replace(headers=[("Authorization", "Bearer s3cr3t-token/of-acme")])
        sent = await send(request, transport=carrier)
    assert specifics(sent).endswith('received "token [redacted]"')


# A connection that ends


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (hangs_up, "while waiting for the head of the answer; no answer was received"),
        (resets, "while waiting for the head of the answer; no answer was received"),
        (
            writes(b"HTTP/1.1 200 OK\r\nContent-", close=True),
            'while waiting for the head of the answer; received "HTTP/1.1 200 OK\\r\\nContent-"',
        ),
        (
            writes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", close=True),
            "while reading the body of the answer; status 200",
        ),
    ],
)
async def test_w19_a_connection_that_ends_says_when(answer: Answer, seen: str) -> None:
    sent, _ = await sent_to(answer)
    assert kind(sent) == "reset"
    assert specifics(sent) == seen


# The phase that ran out of time


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (says_nothing, "while waiting for the head of the answer"),
        (
            writes(b"HTTP/1.1 200 OK\r\nX-Slow: "),
            'while waiting for the head of the answer; received "HTTP/1.1 200 OK\\r\\nX-Slow: "',
        ),
        (
            drips(b"HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\n"),
            "while reading the body of the answer; status 503",
        ),
    ],
)
async def test_w19_a_receiver_that_is_too_slow_says_what_was_waited_for(answer: Answer, seen: str) -> None:
    sent, _ = await sent_to(answer, timeout_seconds=0.2)
    assert kind(sent) == "read_timeout"
    assert specifics(sent) == f"time ran out after 0.2 s {seen}"


async def test_w19_a_receiver_that_never_reads_ran_out_of_time_while_we_were_sending() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel accepts, nobody reads
        async with transport() as carrier:
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
            sent = await send(outgoing(url, timeout_seconds=0.2, body=b"x" * 20_000_000), transport=carrier)
    assert (kind(sent), specifics(sent)) == ("read_timeout", "time ran out after 0.2 s while sending the request")


async def test_w19_a_name_that_never_resolves_ran_out_of_time_in_the_lookup() -> None:
    async def never(_host: str, _port: int) -> list[str]:
        return await asyncio.Event().wait() and []

    sent = await send_with(never, "https://slow.example/")
    assert (kind(sent), specifics(sent)) == ("connect_timeout", "time ran out after 0.2 s in the DNS lookup")


async def test_w19_a_handshake_that_never_ends_ran_out_of_time_there() -> None:
    async with receiving(says_nothing) as receiver:
        sent = await send_with(None, receiver.url.replace("http:", "https:"))
    assert (kind(sent), specifics(sent)) == ("connect_timeout", "time ran out after 0.2 s in the TLS handshake")


async def test_w19_a_host_that_never_accepts_ran_out_of_time_while_connecting() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        # A queue of none takes one; to the next, the kernel says nothing.
        waiting = [socket.socket() for _ in range(8)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        sent = await send_with(None, f"http://127.0.0.1:{address[1]}/")
        for each in waiting:
            each.close()
    assert (kind(sent), specifics(sent)) == ("connect_timeout", "time ran out after 0.2 s while connecting")


async def test_a_proxy_that_never_connects_us_is_said_to_be_the_proxy() -> None:
    async with serving(reads_forever) as port, proxied(port) as carrier:
        sent = await send(outgoing("https://hooks.example/", timeout_seconds=0.2), transport=carrier)
    assert kind(sent) == "connect_timeout"
    assert specifics(sent) == "time ran out after 0.2 s while the egress proxy was connecting"


async def test_a_proxy_that_refuses_says_with_which_status() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden by 10.0.0.5\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with serving(refuse) as port, proxied(port) as carrier:
        sent = await send(outgoing("https://hooks.example/"), transport=carrier)
    assert (kind(sent), specifics(sent)) == ("connect_failed", "the egress proxy answered 403")


async def test_w19_what_is_no_http_is_shown_through_a_proxy_too() -> None:
    async with receiving(b"SSH-2.0-OpenSSH_9.6\r\n") as receiver:
        proxy_url = f"http://127.0.0.1:{receiver.port}"
        async with transport(Policy(allow_http=True), proxy_url=proxy_url) as carrier:
            sent = await send(outgoing("http://hooks.example/"), transport=carrier)
    assert kind(sent) == "bad_response"
    assert specifics(sent) == 'Expected HTTP/, RTSP/ or ICE/; received "SSH-2.0-OpenSSH_9.6\\r\\n"'


async def test_w19_a_second_try_that_finds_nobody_is_a_failed_connection() -> None:
    """Regression: what the first try had seen was told of the second."""
    async with receiving(writes(OK)) as receiver, transport() as carrier:
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200

        async def goes_away(writer: asyncio.StreamWriter) -> None:
            receiver.stop_listening()
            await hangs_up(writer)

        receiver.answer = goes_away
        sent = await send(outgoing(receiver.url), transport=carrier)
    assert (kind(sent), specifics(sent)) == ("connect_failed", "connection refused")


async def test_connecting_and_shaking_hands_may_take_as_long_as_the_endpoint_s_timeout() -> None:
    """Regression: after five seconds nobody waited any longer, although the endpoint allowed thirty."""
    async with receiving(says_nothing) as receiver, transport() as carrier:
        url = receiver.url.replace("http:", "https:")
        sent = await send(outgoing(url, timeout_seconds=5.5), transport=carrier)
    assert (kind(sent), specifics(sent)) == ("connect_timeout", "time ran out after 5.5 s in the TLS handshake")
    assert sent.duration_ms >= 5500


# TLS


def alert(code: int) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\x15\x03\x03\x00\x02\x02" + bytes([code]))
        writer.close()

    return serve


async def cuts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100_000)
    writer.close()


async def cuts_hard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    await resets(writer)


async def speaks_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize(
    ("serve", "seen"),
    [
        (alert(40), "TLS alert: handshake failure"),
        (alert(70), "TLS alert: protocol version"),
        (alert(112), "TLS alert: unrecognized name"),
        (alert(116), "TLS alert: certificate required"),
        (alert(120), "TLS alert: no application protocol"),
        (alert(121), "a TLS alert that has no name"),
        (cuts, "the receiver closed the connection in the TLS handshake"),
        (cuts_hard, "the receiver closed the connection in the TLS handshake"),
        (speaks_http, "wrong version number"),
    ],
)
async def test_w19_a_handshake_that_fails_says_what_the_receiver_did(
    run: Callable[..., Unanswered], serve: Serve, seen: str
) -> None:
    async def ask() -> Answered | Unanswered:
        async with serving(serve) as port, transport() as carrier:
            return await send(outgoing(f"https://127.0.0.1:{port}/"), transport=carrier)

    sent = await asyncio.to_thread(lambda: run(ask()))
    assert (kind(sent), specifics(sent)) == ("tls", seen)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
async def test_w19_an_alert_after_the_handshake_is_named_too(run: Callable[..., Unanswered], tmp_path: Path) -> None:
    """With TLS 1.3 a receiver that wants our certificate says so only after the handshake."""
    server_side, client_side = self_signed(tmp_path)
    server_side.verify_mode = ssl.CERT_REQUIRED

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            with suppress(ssl.SSLError):
                server_side.wrap_socket(connection.dup(), server_side=True)
            # Read to its end: closed with something unread, a connection is reset, and the alert may be lost.
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    async def ask(port: int) -> Answered | Unanswered:
        async with transport(tls=client_side) as carrier:
            return await send(outgoing(f"https://127.0.0.1:{port}/"), transport=carrier)

    # In a thread: asyncio's servers end a failed handshake without an alert.
    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = asyncio.create_task(asyncio.to_thread(serve, server))
        sent = await asyncio.to_thread(lambda: run(ask(server.getsockname()[1])))
        await serving
    assert (kind(sent), specifics(sent)) == ("tls", "TLS alert: certificate required")


# What they share


async def send_with(lookup: Lookup | None, url: str) -> Answered | Unanswered:
    async with transport(lookup=lookup) as carrier:
        return await send(outgoing(url, timeout_seconds=0.2), transport=carrier)


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def proxied(port: int) -> AsyncIterator[GuardedTransport]:
    async with transport(LOOPBACK_OPEN, proxy_url=f"http://127.0.0.1:{port}") as carrier:
        yield carrier


async def reads_forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass
    writer.close()
