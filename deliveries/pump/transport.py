"""The one way out to receivers: httpx's transport interface over aiohttp's connection pool, guarded at the dial.

aiohttp dials, pools connections and parses answers; a request is a few lines that we write ourselves. Its session and
its request objects would double the CPU per request, and hide which connection was used and whether it had been used
before. Through a proxy a request is aiohttp's own, since it also has to speak to the proxy.
"""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, NamedTuple

import aiohttp
import httpx
from aiohttp import StreamReader, hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import AddrInfoType, Connection
from aiohttp.http_exceptions import HttpProcessingError
from multidict import istr
from yarl import URL

from deliveries.pump.wire import Wire, parser_s_word
from subscriptions.guards.urls import (
    Policy,
    RefusedTarget,
    check_addresses,
    check_as_public,
    name_to_look_up,
    parse_target,
)

logger = logging.getLogger(__name__)

Lookup = Callable[[str, int], Awaitable[list[str]]]

KEEP_ALIVE_SECONDS = 30
DNS_CACHE_SECONDS = 30

# How far a request came. `proxy`: the egress proxy is asked to connect us.
Phase = Literal["dns", "connect", "proxy", "handshake", "sending", "head", "body"]
# A look-up that brings no address we deliver to takes so long at least (seconds).
_FAILED_LOOKUP_SECONDS = 0.5


class Trail:
    """Handed in as the extension `trail`: says how far a request came, even one that never got an answer.

    One per attempt, made by `send`. What most attempts leave as it is, is the class's.
    """

    connected = False
    address: str | None = None
    phase: Phase = "dns"
    # Of the answer: its status, and its first bytes if its head never came to an end.
    status_code: int | None = None
    heard = b""


class NotHttp(httpx.RemoteProtocolError):
    """The answer is not HTTP. Its text is the parser's word, safe to show."""


class ProxyRefused(httpx.ProxyError):
    """The egress proxy did not connect us. Its text is safe to show."""


class Post(httpx.Request):
    """One POST. What only httpx's own parts would look at is made when somebody asks for it, as mock transports do."""

    def __init__(self, *, url: str, headers: Sequence[tuple[str, str]], body: bytes, trail: Trail) -> None:
        self.method = "POST"
        self.plain_url = url
        self.plain_headers = headers
        self.body = body
        self.extensions = {"trail": trail}

    @cached_property
    def url(self) -> httpx.URL:  # type: ignore[override]
        return httpx.URL(self.plain_url)

    @cached_property
    def headers(self) -> httpx.Headers:  # type: ignore[override]
        return httpx.Headers(list(self.plain_headers))

    @cached_property
    def stream(self) -> httpx.ByteStream:  # type: ignore[override]
        return httpx.ByteStream(self.body)


class Reply(httpx.Response):
    """The answer to a `Post`, its head arrived, with only what its sender looks at."""

    def __init__(self, answer: "_Answer") -> None:
        self.status_code = answer.status
        self.raw_headers = answer.raw_headers
        self.stream = _Body(answer)
        self.extensions = {}

    @cached_property
    def headers(self) -> httpx.Headers:  # type: ignore[override]
        return httpx.Headers(list(self.raw_headers))


class GuardedTransport(httpx.AsyncBaseTransport):
    """Made inside the event loop that uses it, and kept for as long: it owns the connections.

    With `proxy_url` the proxy resolves names, so it has to refuse private answers itself; what a URL says by itself,
    literal addresses included, is still judged here.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        lookup: Lookup | None = None,
        proxy_url: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._proxy = URL(proxy_url) if proxy_url else None
        # One pool per scheme: the guard's answer depends on it, and neither the resolver nor the socket hears of it.
        self._connectors = {
            scheme: _Connector(
                guard=None if proxy_url else _Guard(scheme, policy, lookup or system_lookup),
                tls=tls,
            )
            for scheme in ("http", "https")
        }
        self._route = lru_cache(maxsize=32_768)(self._find_route)
        self._dialled = lru_cache(maxsize=8192)(
            lambda origin: _Request("POST", origin, loop=asyncio.get_running_loop())
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises `RefusedTarget`, or httpx's errors with the operating system's own as their cause."""
        post = request if isinstance(request, Post) else _as_post(request)
        route = self._route(post.plain_url)
        try:
            answer = await self._ask(post, route=route)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("No connection in time.") from error
        except aiohttp.ClientHttpProxyError as error:
            raise ProxyRefused(f"the egress proxy answered {error.status}") from error
        except aiohttp.ClientConnectorError as error:
            raise httpx.ConnectError("No connection.") from error
        except aiohttp.ClientResponseError as error:
            raise NotHttp(parser_s_word(error.message)) from error
        except aiohttp.ClientConnectionError as error:
            raise httpx.ReadError("The connection ended before the answer.") from error
        return Reply(answer) if request is post else _whole(answer)

    async def aclose(self) -> None:
        for connector in self._connectors.values():
            await connector.close()

    def _find_route(self, url: str) -> "_Route":
        target = parse_target(url, policy=self._policy)
        if self._proxy and target.address is None:
            check_as_public(scheme=target.scheme, port=target.port, policy=self._policy)
        judged = URL(target.url, encoded=True)
        dialled = self._dialled(judged.origin())
        start = f"POST {judged.raw_path_qs} HTTP/1.1\r\nhost: {dialled.headers[hdrs.HOST]}"
        return _Route(target.url, start, dialled, self._connectors[target.scheme])

    async def _ask(self, request: Post, *, route: "_Route", fresh: bool = False) -> "_Answer":
        dialled = self._proxied(request, route) if self._proxy else route.dialled
        written = b"" if self._proxy else _written(request, route.start)
        if fresh:
            route.connector.forget_idle(dialled.connection_key)
        connection = route.connector.idle(dialled) or await self._connect(
            route.connector, dialled, trail=request.extensions["trail"]
        )
        wire = connection.protocol
        assert isinstance(wire, Wire)
        if wire.should_close and wire.used:
            # It spoke while nobody asked, so its next words may answer anything: leave it.
            connection.close()
            return await self._ask(request, route=route, fresh=True)
        trail = request.extensions["trail"]
        trail.connected, trail.address = True, None if self._proxy else wire.peer_address()
        trail.phase = "head"
        reused = wire.start_request()
        try:
            if self._proxy:
                answer = await _converse_as_aiohttp(dialled, connection)
            else:
                answer = await _converse(wire, connection, written, trail)
            trail.phase, trail.status_code = "body", answer.status
            return answer
        except BaseException as error:
            trail.heard = wire.heard
            # Receivers close idle connections whenever they like, and our request may cross that on its way. Silence
            # on a connection that worked before means just this; and what is no HTTP there, is what the receiver still
            # had to say after its answer before. Neither is a failed attempt: ask once more. Should the first request
            # have been read after all, the second carries the same webhook-id.
            if not reused or not _is_no_answer(wire.heard, error):
                raise
        trail.connected, trail.heard = False, b""
        return await self._ask(request, route=route, fresh=True)

    async def _connect(self, connector: "_Connector", dialled: "_Request", *, trail: Trail) -> Connection:
        trail.phase = "dns"
        _DIALLING.set(trail)
        try:
            return await connector.connect(dialled, [], _NO_TIMEOUT)
        except aiohttp.ClientConnectorError as error:
            # No file is left for it: those of idle connections are.
            if error.os_error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            for each in self._connectors.values():
                each.forget_all_idle()
            await asyncio.sleep(0)  # that is when they are closed
            return await connector.connect(dialled, [], _NO_TIMEOUT)

    def _proxied(self, request: Post, route: "_Route") -> "_Request":
        return _Request(
            request.method,
            URL(route.url, encoded=True),
            # Named here, or aiohttp would write its own in capitals.
            headers=[("host", route.dialled.headers[hdrs.HOST]), *request.plain_headers, *_length(request)],
            data=request.body,
            proxy=self._proxy,
            loop=asyncio.get_running_loop(),
        )


def _whole(answer: "_Answer") -> httpx.Response:
    return httpx.Response(answer.status, headers=answer.raw_headers, stream=_Body(answer))


def _as_post(request: httpx.Request) -> Post:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
    trail = request.extensions.get("trail") or Trail()
    return Post(url=str(request.url), headers=headers, body=request.read(), trail=trail)


def _length(request: Post) -> list[tuple[str, str]]:
    return [("content-length", str(len(request.body)))]


def _written(request: Post, start: str) -> bytes:
    """The request as it goes on the wire."""
    head = "\r\n".join([start, *[f"{name}: {value}" for name, value in request.plain_headers], ""])
    # Names and values were checked when they were set. Should one hold a line's end all the same, nothing is sent.
    # The start is two lines.
    if not head.count("\r") == head.count("\n") == len(request.plain_headers) + 2:
        raise ValueError("A header holds the end of a line.")
    lowered = head.lower()
    defaults = b"".join([line for name, line in _DEFAULT_LINES if name not in lowered])
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (head.encode(), defaults, len(request.body), request.body)


class _Answer(NamedTuple):
    status: int
    raw_headers: Sequence[tuple[bytes, bytes]]
    content: StreamReader
    # Gives the connection back after a body that was read to its end; takes it down after any other.
    end: Callable[[], None]


async def _converse(wire: Wire, connection: Connection, written: bytes, trail: Trail) -> _Answer:
    try:
        if wire.transport is None or wire.transport.is_closing():
            early = wire.exception()  # what it said before it was asked may be no HTTP
            gone = aiohttp.ClientConnectionResetError("The connection is gone.")
            raise early if isinstance(early, HttpProcessingError) else gone
        wire.transport.write(written)
        while True:
            message, content = await wire.read()
            # A 100 or a 103 comes before the answer; a 101 is one. The wire sees to it that there are only a few.
            if not 100 <= message.code <= 199 or message.code == 101:
                return _Answer(message.code, message.raw_headers, content, partial(_end, connection, content))
    except BaseException as error:
        if wire.transport is not None and wire.transport.get_write_buffer_size():
            trail.phase = "sending"
        _cut(connection)
        if isinstance(error, HttpProcessingError):
            raise NotHttp(parser_s_word(error.message)) from error
        raise


def _is_no_answer(heard: bytes, error: BaseException) -> bool:
    if isinstance(error, NotHttp):
        return not heard.startswith(b"HTTP/")
    return isinstance(error, aiohttp.ClientConnectionError) and not heard


def _end(connection: Connection, content: StreamReader) -> None:
    if content.is_eof():
        connection.release()
    else:
        _cut(connection)


def _cut(connection: Connection) -> None:
    """At once: closed politely, a connection stays until its receiver has read what we wrote, which may be never."""
    if connection.protocol is not None:
        connection.protocol.abort()
    connection.close()


async def _converse_as_aiohttp(post: aiohttp.ClientRequest, connection: Connection) -> _Answer:
    try:
        answer = await post.send(connection)
        try:
            await answer.start(connection)
        except BaseException:
            answer.close()
            raise
    except BaseException:
        connection.close()
        raise
    return _Answer(answer.status, answer.raw_headers, answer.content, partial(_end_as_aiohttp, answer))


def _end_as_aiohttp(answer: aiohttp.ClientResponse) -> None:
    # A body read to its end has given its connection back by itself.
    if not answer.closed:
        answer.close()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: _Answer) -> None:
        self._answer = answer

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        if self._answer.content.at_eof():
            raise StopAsyncIteration
        try:
            chunk = await self._answer.content.readany()
        except HttpProcessingError as error:
            raise NotHttp(parser_s_word(error.message)) from error
        except aiohttp.ClientError as error:
            raise httpx.ReadError("The connection ended before the answer did.") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self._answer.end()


# Some firewalls want an Accept. Answers are stored as they come, so they are asked for uncompressed.
_DEFAULT_HEADERS = {istr("accept"): "*/*", istr("accept-encoding"): "identity"}
# As they are written, each with what tells that the request has its own.
_DEFAULT_LINES = [(f"\n{name}:", f"{name}: {value}\r\n".encode()) for name, value in _DEFAULT_HEADERS.items()]


class _Request(aiohttp.ClientRequest):
    DEFAULT_HEADERS = _DEFAULT_HEADERS

    @cached_property
    def connection_key(self) -> ConnectionKey:
        return super().connection_key


class _Guard(AbstractResolver):
    """The wall as aiohttp meets it: all answers to a lookup, and once more the one address being dialled."""

    def __init__(self, scheme: str, policy: Policy, lookup: Lookup) -> None:
        self._check = partial(check_addresses, scheme=scheme, policy=policy)
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        started = time.monotonic()
        try:
            addresses = await self._lookup(host, port)
            self._check(addresses, port=port)
        except (socket.gaierror, RefusedTarget) as error:
            if isinstance(error, RefusedTarget) and error.code != "address_not_allowed":
                raise
            # Told alike and after the same while, or a consumer could find out which names exist behind us.
            logger.info(
                "dial.no_address", extra={"fields": {"host": host, "refused": isinstance(error, RefusedTarget)}}
            )
            await asyncio.sleep(max(0, started + _FAILED_LOOKUP_SECONDS - time.monotonic()))
            raise _no_address() from None
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
            for address in addresses
        ]

    def open_socket(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, (address, port, *_) = info
        try:
            self._check([address], port=port)
        except RefusedTarget:
            # aiohttp races several addresses and lets only operating system errors out of the race.
            raise _no_address() from None
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        pass


def _no_address() -> socket.gaierror:
    return socket.gaierror(socket.EAI_NONAME, "no address that we deliver to")


class _Connector(aiohttp.TCPConnector):
    def __init__(self, *, guard: _Guard | None, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            limit=0,  # how much is in flight is the claim's business
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            ttl_dns_cache=DNS_CACHE_SECONDS,
            ssl=tls or True,
            resolver=guard,
            socket_factory=guard.open_socket if guard else None,
        )
        # What aiohttp makes each connection's protocol with.
        self._factory = partial(self._make_wire)
        self._is_proxied = guard is None

    async def _wrap_create_connection(self, *args: Any, **kwargs: Any) -> tuple[asyncio.Transport, ResponseHandler]:
        """aiohttp's, once for each address that is dialled, when names have been looked up."""
        _DIALLING.get().phase = "connect"
        return await super()._wrap_create_connection(*args, **kwargs)

    def _make_wire(self) -> ResponseHandler:
        """Called when a connection is there, before any handshake on it; through a proxy, for each of the two."""
        trail = _DIALLING.get()
        trail.phase = "proxy" if self._is_proxied and trail.phase == "connect" else "handshake"
        return Wire(self._loop)

    def idle(self, request: _Request) -> Connection | None:
        """One that waits for a request. `connect` would find the same one, through two coroutines more.

        The rest is left to it: connections that are too old, and proxies. What it counts per host, we do not limit.
        """
        waiting = None if request.proxy else self._conns.get(request.connection_key)
        if not waiting:
            return None
        wire, since = waiting[0]
        if not wire.is_connected() or time.monotonic() - since > KEEP_ALIVE_SECONDS:
            return None
        waiting.popleft()
        if not waiting:
            del self._conns[request.connection_key]
        self._acquired.add(wire)
        return Connection(self, request.connection_key, wire, self._loop)

    def forget_idle(self, key: ConnectionKey) -> None:
        """The next connection for this key is a new one."""
        for wire, _ in self._conns.pop(key, ()):
            wire.close()

    def forget_all_idle(self) -> None:
        """At once: closed politely, one with TLS waits for its receiver."""
        for wire, _ in [idle for kept in self._conns.values() for idle in kept]:
            wire.abort()
        self._conns.clear()


class _Route(NamedTuple):
    url: str
    # The first lines of a request: what is asked for, and of whom.
    start: str
    # What aiohttp dials by and tells connections apart by; the same for all of one host.
    dialled: _Request
    connector: _Connector


async def system_lookup(host: str, port: int) -> list[str]:
    look = partial(socket.getaddrinfo, name_to_look_up(host), port, type=socket.SOCK_STREAM)
    infos = await asyncio.get_running_loop().run_in_executor(_LOOKUPS, look)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


# A lookup of a name whose servers are dead blocks a thread for many seconds. The loop's own pool has a handful of
# threads, so a few such names would hold up every other receiver's.
_LOOKUPS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="lookup")

# The deadline is the caller's, and one for the whole attempt: a slow connection may take all of it.
_NO_TIMEOUT = aiohttp.ClientTimeout(connect=None, sock_connect=None)

# The trail of the attempt for which this task opens a connection: aiohttp has no place for it.
_DIALLING: ContextVar[Trail] = ContextVar("dialling")
