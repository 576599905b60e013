"""Send one request and say what happened. No database, no decision, and no error: whatever happens is a fact.

The walk: sign → **send** → decide. `send` takes the transport, so a test hands it a mock and a worker the real one.
"""

import asyncio
import errno
import logging
import os
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Literal, NamedTuple

import httpx

from deliveries.pump import failure_detail
from deliveries.pump.exchange import NotHttp, Post, ProxyRefused, Trail
from deliveries.pump.transport import post
from subscriptions.guards.urls import RefusedTarget
from subscriptions.process import counting

log = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
STORED_BYTES = 8 * 1024
STORED_HEADERS = 100
# Out of files or memory: a failed connection that says nothing about the receiver.
OUR_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

ErrorKind = Literal[
    "connect_timeout",
    "connect_failed",
    "dns",
    "tls",
    "refused_address",
    "read_timeout",
    "reset",
    "bad_response",
    "shortage",
    "internal",
]

EXPLANATIONS: dict[ErrorKind, str] = {
    "connect_timeout": "The receiver could not be reached in time.",
    "connect_failed": "The receiver did not accept the connection.",
    "dns": "The host name of the URL does not lead to an address that we deliver to.",
    "tls": "No secure connection could be made with the receiver.",
    "refused_address": "We do not deliver to this URL.",
    "read_timeout": "The receiver did not finish its answer in time.",
    "reset": "The receiver closed the connection before its answer was complete.",
    "bad_response": "The receiver's answer is not valid HTTP.",
    "shortage": "Our machine had no files, memory, threads or ports left; nothing was sent.",
    "internal": "Something went wrong on our side; the receiver is not to blame.",
}


class Outgoing(NamedTuple):
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    timeout_seconds: float


class Answered(NamedTuple):
    """The receiver answered in full, or with more than anyone wants to read. Whether that is good, `retry` says."""

    status_code: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    body_truncated: bool
    started_at: datetime
    duration_ms: int
    address: str | None


class Unanswered(NamedTuple):
    """No complete answer within the deadline. `detail` is for people, and names no address."""

    error_kind: ErrorKind
    detail: str
    started_at: datetime
    duration_ms: int
    address: str | None


async def send(request: Outgoing, *, transport: httpx.AsyncBaseTransport) -> Answered | Unanswered:
    """POST once. Raises nothing but cancellation."""
    started_at = datetime.now(UTC)
    clock = time.monotonic()  # a wall clock may jump in the middle
    trail = Trail()
    try:
        # One deadline over everything: a receiver that drips a byte a second is cut off like one that says nothing.
        with _Deadline(request.timeout_seconds):
            reply = await post(Post(request.url, request.headers, request.body, trail), transport=transport)
            body, body_truncated = await _read(reply.stream)
    except Exception as error:
        kind, specifics = _explain(error, trail=trail, request=request)
        return Unanswered(
            error_kind=kind,
            detail=f"{EXPLANATIONS[kind]} ({specifics})" if specifics else EXPLANATIONS[kind],
            started_at=started_at,
            duration_ms=_milliseconds_since(clock),
            address=trail.address,
        )
    return Answered(
        status_code=reply.status_code,
        headers=_bounded(reply.raw_headers),
        body=body,
        body_truncated=body_truncated,
        started_at=started_at,
        duration_ms=_milliseconds_since(clock),
        address=trail.address,
    )


class _Deadline:
    """What `asyncio.timeout` does, at a third of its price, which every attempt pays."""

    __slots__ = ("_cancelling", "_is_over", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._task, self._cancelling, self._is_over = task, task.cancelling(), False
        self._timer = loop.call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._timer.cancel()
        # Cancelled by nobody else: then it was the deadline, and nobody need know of the cancellation.
        if self._is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error


async def _read(stream: httpx.AsyncByteStream) -> tuple[bytes, bool]:
    """The part of the body that is kept, and whether there is more. Beyond READ_BYTES nobody waits for its end.

    The stream is raw: a gzip bomb stays small.
    """
    kept, size = b"", 0
    try:
        async for chunk in stream:
            kept += chunk[: STORED_BYTES - len(kept)]
            size += len(chunk)
            if size > READ_BYTES:
                break
    finally:
        await stream.aclose()
    # PostgreSQL's text holds no NUL.
    return kept.replace(b"\0", b""), size > STORED_BYTES


def _bounded(headers: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    if len(headers) > STORED_HEADERS or sum([len(name) + len(value) for name, value in headers]) > STORED_BYTES:
        headers = _shortened(headers)
    return tuple([(name.decode("latin-1"), value.replace(b"\0", b"").decode("latin-1")) for name, value in headers])


def _shortened(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    # The sender obeys these two, so padding must not push them out.
    headers = sorted(headers, key=lambda header: header[0].lower() not in (b"retry-after", b"webhook-delivery"))
    sizes = accumulate(len(name) + len(value) for name, value in headers)
    return [header for header, size in zip(headers[:STORED_HEADERS], sizes, strict=False) if size <= STORED_BYTES]


def _explain(error: Exception, *, trail: Trail, request: Outgoing) -> tuple[ErrorKind, str]:
    """The kind of an error, and specifics that are safe to show: what was seen, never an address."""
    sent_headers = request.headers
    for cause in _causes(error):
        if lacking := shortage(cause):
            # On a connection that was made, some of the request may have been sent.
            return ("internal" if trail.connected else "shortage"), lacking
        match cause:
            case RefusedTarget():
                counting.count("refused", cause.code)
                return "refused_address", str(cause)
            case socket.gaierror():
                return "dns", ""
            case ssl.SSLError():
                return "tls", failure_detail.tls_failure(cause)
            case TimeoutError():
                when = failure_detail.timed_out(trail, seconds=request.timeout_seconds, sent_headers=sent_headers)
                return ("read_timeout" if trail.connected else "connect_timeout"), when
            case ConnectionResetError() | BrokenPipeError() | ConnectionAbortedError() if trail.phase == "handshake":
                return "tls", "the receiver closed the connection in the TLS handshake"
            case ConnectionResetError() | BrokenPipeError() | ConnectionAbortedError():
                return "reset", failure_detail.broke_off(trail, sent_headers=sent_headers)
            case OSError(errno=int(number)) if not trail.connected:
                return "connect_failed", os.strerror(number).lower()
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return "connect_timeout", ""
        case httpx.TimeoutException():
            return "read_timeout", ""
        case ProxyRefused():
            return "connect_failed", str(error)
        case httpx.ConnectError() | httpx.ProxyError():
            return "connect_failed", ""
        case httpx.NetworkError():
            return "reset", failure_detail.broke_off(trail, sent_headers=sent_headers)
        case httpx.RemoteProtocolError() | httpx.DecodingError():
            word = str(error) if isinstance(error, NotHttp) else ""
            return "bad_response", failure_detail.not_http(trail, word=word, sent_headers=sent_headers)
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return "refused_address", ""
    log.exception("send.broke")
    return "internal", ""


def shortage(error: BaseException) -> str:
    """What this machine is out of, if that is what the error says."""
    match error:
        case OSError(errno=int(number)) if number in OUR_SHORTAGES:
            return os.strerror(number).lower()
        case OSError(errno=errno.EADDRNOTAVAIL) if not _has_free_port():
            return "no free local port"
        case MemoryError():
            return "cannot allocate memory"
        case RuntimeError() if "start new thread" in str(error):
            return "cannot start a thread"
    return ""


def _has_free_port() -> bool:
    """Then EADDRNOTAVAIL was about the receiver's address, such as one of IPv6 where there is none."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("", 0))
    except OSError:
        return False
    return True


def _causes(error: BaseException) -> Iterator[BaseException]:
    """From the root up: what the operating system said, before what was made of it."""
    if error.__cause__ is not None:
        yield from _causes(error.__cause__)
    yield error


def _milliseconds_since(clock: float) -> int:
    return round((time.monotonic() - clock) * 1000)
