"""Part of send: one request and its answer on one connection: written, waited for, read."""

from collections.abc import Callable
from functools import partial

import aiohttp
import httpx
from aiohttp import StreamReader

from deliveries.pump.aiohttp_internals import Connection, HttpProcessingError
from deliveries.pump.connector import DEFAULT_HEADERS
from deliveries.pump.exchange import NotHttp, Post, Reply, Trail
from deliveries.pump.wire import Wire, parse_failure


async def roundtrip(written: bytes, *, wire: Wire, connection: Connection, trail: Trail) -> Reply:
    """The answer, its head arrived. The connection goes back to the pool when the body's stream is closed."""
    try:
        if wire.transport is None or wire.transport.is_closing():
            early = wire.exception()  # what it sent before our request may be no HTTP
            gone = aiohttp.ClientConnectionResetError("The connection is gone.")
            raise early if isinstance(early, HttpProcessingError) else gone
        wire.transport.write(written)
        while True:
            message, content = await wire.read()
            # A 100 or a 103 comes before the answer; a 101 is one. The wire limits how many are read.
            if not 100 <= message.code <= 199 or message.code == 101:
                return Reply(message.code, message.raw_headers, _Body(content, partial(_end, connection, content)))
    except BaseException as error:
        if wire.transport is not None and wire.transport.get_write_buffer_size():
            trail.phase = "sending"
        _abort(connection)
        if isinstance(error, HttpProcessingError):
            raise NotHttp(parse_failure(error.message)) from error
        raise


async def roundtrip_through_proxy(request: aiohttp.ClientRequest, connection: Connection) -> Reply:
    """The same with aiohttp's own request, which knows how to speak to a proxy."""
    try:
        answer = await request.send(connection)
        try:
            await answer.start(connection)
        except BaseException:
            answer.close()
            raise
    except BaseException:
        connection.close()
        raise
    return Reply(answer.status, answer.raw_headers, _Body(answer.content, partial(_end_through_proxy, answer)))


def request_bytes(request: Post, start: str) -> bytes:
    """The request as it goes on the wire. `start` is its first two lines: what is asked for, and of which host."""
    head = "\r\n".join([start, *[f"{name}: {value}" for name, value in request.headers], ""])
    # Names and values were checked when they were set. Should one hold a line's end all the same, nothing is sent.
    if not head.count("\r") == head.count("\n") == len(request.headers) + 2:
        raise ValueError("A header holds the end of a line.")
    lowered = head.lower()
    defaults = b"".join([line for name, line in _DEFAULT_LINES if name not in lowered])
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (head.encode(), defaults, len(request.body), request.body)


# Each default header's line, with the text by which a request's own header of that name is found.
_DEFAULT_LINES = [(f"\n{name}:", f"{name}: {value}\r\n".encode()) for name, value in DEFAULT_HEADERS.items()]


class _Body(httpx.AsyncByteStream):
    """The body of one answer, as it arrives. Closing it ends the round trip."""

    def __init__(self, content: StreamReader, end: Callable[[], None]) -> None:
        self._content = content
        self._end = end

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        if self._content.at_eof():
            raise StopAsyncIteration
        try:
            chunk = await self._content.readany()
        except HttpProcessingError as error:
            raise NotHttp(parse_failure(error.message)) from error
        except aiohttp.ClientError as error:
            raise httpx.ReadError("The connection ended before the answer did.") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self._end()


def _end(connection: Connection, content: StreamReader) -> None:
    """A connection whose answer was read to its end goes back to the pool; any other one is cut."""
    if content.is_eof():
        connection.release()
    else:
        _abort(connection)


def _abort(connection: Connection) -> None:
    """At once: closed politely, a connection stays until its receiver has read what we wrote, which may be never."""
    if connection.protocol is not None:
        connection.protocol.abort()
    connection.close()


def _end_through_proxy(answer: aiohttp.ClientResponse) -> None:
    # A body read to its end has given its connection back by itself.
    if not answer.closed:
        answer.close()
