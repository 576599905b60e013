import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import get_args

import httpx
import pytest
import respx

from deliveries.pump.transport import GuardedTransport
from deliveries.send import EXPLANATIONS, Answered, ErrorKind, Outgoing, Unanswered, send
from subscriptions.guards.urls import Policy, RefusedTarget

pytestmark = pytest.mark.asyncio

URL = "https://hooks.example/in?a=1"


def outgoing(*, url: str = URL, timeout_seconds: float = 5) -> Outgoing:
    headers = (("webhook-id", "evt_1"), ("content-type", "application/json"))
    return Outgoing(url=url, headers=headers, body=b'{"id":"evt_1"}', timeout_seconds=timeout_seconds)


async def answered(response: httpx.Response) -> Answered:
    sent = await send(outgoing(), transport=httpx.MockTransport(lambda _request: response))
    assert isinstance(sent, Answered), sent
    return sent


async def failed(error: Exception) -> Unanswered:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise error

    sent = await send(outgoing(), transport=httpx.MockTransport(fail))
    assert isinstance(sent, Unanswered), sent
    return sent


class Body(httpx.AsyncByteStream):
    """A body in chunks, which notes how far it was read and whether it was closed."""

    def __init__(self, chunk: Callable[[int], bytes], *, count: int) -> None:
        self.read_count = 0
        self.is_closed = False
        self._chunk = chunk
        self._count = count

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.read_count < self._count:
            self.read_count += 1
            yield self._chunk(self.read_count)

    async def aclose(self) -> None:
        self.is_closed = True


async def test_w01_the_request_is_a_post_of_exactly_what_was_given() -> None:
    router = respx.MockRouter()
    route = router.post(URL).respond(202, text="thanks", headers={"X-Request-Id": "r1"})

    sent = await send(outgoing(), transport=httpx.MockTransport(router.async_handler))

    [call] = route.calls
    ours = [(b"webhook-id", b"evt_1"), (b"content-type", b"application/json")]
    assert call.request.headers.raw == [(b"Host", b"hooks.example"), *ours, (b"Content-Length", b"14")]
    assert call.request.content == b'{"id":"evt_1"}'
    assert isinstance(sent, Answered)
    assert (sent.status_code, sent.body, sent.body_truncated, sent.address) == (202, b"thanks", False, None)
    assert ("X-Request-Id", "r1") in sent.headers
    assert timedelta(0) <= datetime.now(UTC) - sent.started_at < timedelta(seconds=5)
    assert 0 <= sent.duration_ms < 5000


@pytest.mark.parametrize(("size", "truncated"), [(0, False), (8192, False), (8193, True)])
async def test_w11_the_first_8_kib_of_a_body_are_kept(size: int, truncated: bool) -> None:
    sent = await answered(httpx.Response(200, content=b"x" * size))
    assert (sent.body, sent.body_truncated) == (b"x" * min(size, 8192), truncated)


async def test_w11_a_body_is_read_up_to_64_kib_and_then_left() -> None:
    body = Body(lambda _number: b"x" * 1024, count=100_000)
    sent = await answered(httpx.Response(200, stream=body))
    assert (sent.status_code, len(sent.body), sent.body_truncated) == (200, 8192, True)
    assert (body.read_count, body.is_closed) == (65, True)


async def test_w11_a_body_that_ends_is_closed_as_well() -> None:
    body = Body(lambda number: b"%d" % number, count=3)
    sent = await answered(httpx.Response(200, stream=body))
    assert (sent.body, body.is_closed) == (b"123", True)


async def test_w11_a_body_that_breaks_off_is_no_answer() -> None:
    def breaks_off(number: int) -> bytes:
        if number == 2:
            raise httpx.ReadError("gone")
        return b"x"

    body = Body(breaks_off, count=3)
    sent = await send(outgoing(), transport=httpx.MockTransport(lambda _request: httpx.Response(200, stream=body)))
    assert isinstance(sent, Unanswered)
    assert (sent.error_kind, body.is_closed) == ("reset", True)


async def test_w11_nul_is_dropped_and_other_odd_bytes_are_kept() -> None:
    sent = await answered(httpx.Response(200, headers=[(b"X-Odd", b"a\0\xe4")], content=b"a\0\xff\0"))
    assert sent.body == b"a\xff"
    assert ("X-Odd", "aä") in sent.headers


@pytest.mark.parametrize(
    "padding", [[(b"X-Pad", b"y")] * 10_000, [(b"X-Pad", b"y" * 9000)], [(b"X-Pad", b"y" * 100)] * 90]
)
async def test_w11_headers_are_bounded_and_those_we_obey_are_among_them(padding: list[tuple[bytes, bytes]]) -> None:
    obeyed = [(b"Retry-After", b"7"), (b"WEBHOOK-DELIVERY", b"disable")]
    sent = await answered(httpx.Response(503, headers=[*padding, *obeyed]))
    assert sent.headers[:2] == (("Retry-After", "7"), ("WEBHOOK-DELIVERY", "disable"))
    assert len(sent.headers) <= 100
    assert sum(len(name) + len(value) for name, value in sent.headers) <= 8192


def caused_by(cause: BaseException, error: Exception | None = None) -> Exception:
    error = error or httpx.ConnectError("no connection to 10.0.0.5")
    error.__cause__ = cause
    return error


def bad_certificate() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed at 10.0.0.5")
    error.verify_message = "certificate has expired"
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ConnectTimeout(""), "connect_timeout"),
        (httpx.PoolTimeout(""), "connect_timeout"),
        (caused_by(TimeoutError(110, "timed out")), "connect_timeout"),
        (httpx.ReadTimeout(""), "read_timeout"),
        (httpx.WriteTimeout(""), "read_timeout"),
        (caused_by(bad_certificate()), "tls"),
        (caused_by(ssl.SSLError(1, "wrong version number")), "tls"),
        (caused_by(socket.gaierror(socket.EAI_NONAME, "unknown")), "dns"),
        (caused_by(caused_by(socket.gaierror(socket.EAI_AGAIN, "try again"))), "dns"),
        (RefusedTarget("address_not_allowed", "We do not deliver there."), "refused_address"),
        (caused_by(RefusedTarget("address_not_allowed", "We do not deliver there.")), "refused_address"),
        (httpx.UnsupportedProtocol("ftp"), "refused_address"),
        (httpx.ConnectError("no connection to 10.0.0.5"), "connect_failed"),
        (caused_by(ConnectionRefusedError(111, "Connect call failed ('10.0.0.5', 443)")), "connect_failed"),
        (caused_by(OSError(113, "no route to 10.0.0.5")), "connect_failed"),
        (httpx.ReadError("10.0.0.5 went away"), "reset"),
        (httpx.WriteError(""), "reset"),
        (caused_by(ConnectionResetError(104, "reset by 10.0.0.5"), httpx.ReadError("")), "reset"),
        (caused_by(ConnectionResetError(104, "reset by 10.0.0.5")), "reset"),
        (httpx.RemoteProtocolError("garbage from 10.0.0.5"), "bad_response"),
        (caused_by(OSError(errno.EMFILE, "too many open files")), "shortage"),
        (caused_by(OSError(errno.ENFILE, "too many open files in system")), "shortage"),
        (caused_by(OSError(errno.ENOBUFS, "no buffer space available")), "shortage"),
        (OSError(errno.ENOMEM, "cannot allocate memory"), "shortage"),
        (MemoryError(), "shortage"),
        (RuntimeError("can't start new thread"), "shortage"),
        # There are ports, so it was about the address: one of IPv6 where there is none.
        (caused_by(OSError(errno.EADDRNOTAVAIL, "cannot assign 10.0.0.5")), "connect_failed"),
    ],
)
async def test_s06_every_failure_has_a_kind_and_names_no_address(error: Exception, kind: ErrorKind) -> None:
    sent = await failed(error)
    assert sent.error_kind == kind
    assert sent.detail.startswith(EXPLANATIONS[kind])
    assert "10.0.0.5" not in sent.detail
    assert sent.address is None


async def test_a_failure_says_what_helps_its_owner() -> None:
    assert (await failed(caused_by(bad_certificate()))).detail.endswith("(certificate has expired)")
    assert (await failed(caused_by(OSError(113, "")))).detail.endswith(f"({os.strerror(113).lower()})")
    assert (await failed(RefusedTarget("x", "Use https."))).detail.endswith("(Use https.)")


async def test_a_bug_of_ours_is_logged_and_not_the_receivers_fault(caplog: pytest.LogCaptureFixture) -> None:
    assert (await failed(RuntimeError("oops"))).error_kind == "internal"
    assert [record.message for record in caplog.records] == ["send.broke"]


@pytest.mark.parametrize("url", ["https://hooks.example:port/", "https://[::1/", "https://exa\x00mple/"])
async def test_a_url_that_is_none_is_refused(url: str) -> None:
    async with GuardedTransport(policy=Policy()) as transport:
        sent = await send(outgoing(url=url), transport=transport)
    assert isinstance(sent, Unanswered)
    assert sent.error_kind == "refused_address"


async def test_w10_the_deadline_covers_the_body_too() -> None:
    class Endless(httpx.AsyncByteStream):
        is_closed = False

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"x"
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            self.is_closed = True

    body = Endless()
    sent = await send(
        outgoing(timeout_seconds=0.05),
        transport=httpx.MockTransport(lambda _request: httpx.Response(200, stream=body)),
    )
    assert isinstance(sent, Unanswered)
    assert sent.duration_ms >= 50
    assert body.is_closed


async def test_cancellation_is_not_an_outcome() -> None:
    started = asyncio.Event()

    async def hang(_request: httpx.Request) -> httpx.Response:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    task = asyncio.create_task(send(outgoing(), transport=httpx.MockTransport(hang)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_at_the_moment_of_the_deadline_stays_one() -> None:
    async def hang(_request: httpx.Request) -> httpx.Response:
        try:
            await asyncio.Event().wait()
        finally:
            task.cancel()  # by somebody else, when the deadline has just cancelled it
        raise AssertionError("never reached")

    task = asyncio.create_task(send(outgoing(timeout_seconds=0.01), transport=httpx.MockTransport(hang)))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_leaves_no_trace_in_its_task() -> None:
    async def hang(_request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    for _ in range(2):
        sent = await send(outgoing(timeout_seconds=0.01), transport=httpx.MockTransport(hang))
        assert isinstance(sent, Unanswered)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_every_kind_is_explained() -> None:
    assert set(EXPLANATIONS) == set(get_args(ErrorKind))
