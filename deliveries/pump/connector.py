"""Part of send: aiohttp's connection pool, with our guard, our protocol, and a short way to an idle connection."""

import asyncio
import ssl
import time
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import aiohttp
from multidict import istr

from deliveries.pump.aiohttp_internals import Connection, ConnectionKey, ResponseHandler
from deliveries.pump.dial_guard import DialGuard
from deliveries.pump.exchange import Trail
from deliveries.pump.wire import Wire

KEEP_ALIVE_SECONDS = 30
DNS_CACHE_SECONDS = 30

# Some firewalls want an Accept. Answers are stored as they come, so they are asked for uncompressed.
DEFAULT_HEADERS = {istr("accept"): "*/*", istr("accept-encoding"): "identity"}

# The trail of the attempt for which the current task opens a connection: aiohttp's interface has no place for it.
_DIALLING: ContextVar[Trail] = ContextVar("dialling")
# The deadline is the caller's, and one for the whole attempt: a slow connection may take all of it.
_NO_TIMEOUT = aiohttp.ClientTimeout(connect=None, sock_connect=None)


class DialRequest(aiohttp.ClientRequest):
    """aiohttp's request: says whom to dial. It goes on the wire itself only through an egress proxy."""

    DEFAULT_HEADERS = DEFAULT_HEADERS

    @cached_property
    def connection_key(self) -> ConnectionKey:
        """What connections are told apart by. Computed once, as one request serves all deliveries of a host."""
        return super().connection_key


class Connector(aiohttp.TCPConnector):
    """The connections of one transport for one scheme: opens them, keeps idle ones, hands them out."""

    def __init__(self, *, guard: DialGuard | None, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            limit=0,  # the claim limits what is in flight
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            ttl_dns_cache=DNS_CACHE_SECONDS,
            ssl=tls or True,
            resolver=guard,
            socket_factory=guard.open_socket if guard else None,
        )
        self._factory = self._make_protocol  # type: ignore[assignment]
        self._is_proxied = guard is None

    async def dial(self, request: DialRequest, *, trail: Trail) -> Connection:
        """A connection, idle or new. The trail says how far a failed one came."""
        trail.phase = "dns"
        _DIALLING.set(trail)
        return await self.connect(request, [], _NO_TIMEOUT)

    async def _wrap_create_connection(self, *args: Any, **kwargs: Any) -> tuple[asyncio.Transport, ResponseHandler]:
        """aiohttp calls it once for each address that is dialled, when the name has been looked up."""
        _DIALLING.get().phase = "connect"
        return await super()._wrap_create_connection(*args, **kwargs)

    def _make_protocol(self) -> ResponseHandler:
        """aiohttp calls it when a connection is made, before any handshake; through a proxy, for each of the two."""
        trail = _DIALLING.get()
        trail.phase = "proxy" if self._is_proxied and trail.phase == "connect" else "handshake"
        return Wire(self._loop)

    def idle(self, request: DialRequest) -> Connection | None:
        """An idle connection. `dial` would find the same one, through two coroutines more.

        Connections that are too old, and proxies, are left to `dial`. aiohttp's count per host is not kept: we set
        no limit per host.
        """
        waiting = None if request.proxy else self._conns.get(request.connection_key)
        if not waiting:
            return None
        protocol, since = waiting[0]
        if not protocol.is_connected() or time.monotonic() - since > KEEP_ALIVE_SECONDS:
            return None
        waiting.popleft()
        if not waiting:
            del self._conns[request.connection_key]
        self._acquired.add(protocol)
        return Connection(self, request.connection_key, protocol, self._loop)

    def close_idle(self, key: ConnectionKey) -> None:
        """The next connection for this key is a new one."""
        for protocol, _ in self._conns.pop(key, ()):
            protocol.close()

    def abort_all_idle(self) -> None:
        """At once: closed politely, a connection with TLS waits for its receiver."""
        for protocol, _ in [idle for kept in self._conns.values() for idle in kept]:
            protocol.abort()
        self._conns.clear()
