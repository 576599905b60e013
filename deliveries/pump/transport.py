"""The one way out to receivers: httpx's transport interface over aiohttp's connection pool, guarded at the dial.

aiohttp dials, pools connections and parses answers; a request is a few lines that we write ourselves. Its session and
its request objects would double the CPU per request, and hide which connection was used and whether it had been used
before. Through a proxy a request is aiohttp's own, since it also has to speak to the proxy.
"""

import asyncio
import errno
import ssl
from functools import lru_cache
from typing import NamedTuple

import aiohttp
import httpx
from aiohttp import hdrs
from yarl import URL

from deliveries.pump.aiohttp_internals import Connection
from deliveries.pump.connector import Connector, DialRequest
from deliveries.pump.dial_guard import DialGuard, Lookup, system_lookup
from deliveries.pump.exchange import NotHttp, Post, ProxyRefused, Reply, Trail
from deliveries.pump.roundtrip import request_bytes, roundtrip, roundtrip_through_proxy
from deliveries.pump.wire import Wire, parse_failure
from subscriptions.guards.urls import Policy, check_as_public, parse_target


async def post(request: Post, *, transport: httpx.AsyncBaseTransport) -> Reply:
    """Ours takes the request as it is. Any other transport gets httpx's objects, which cost as much as the sending."""
    if isinstance(transport, GuardedTransport):
        return await transport.post(request)
    response = await transport.handle_async_request(
        httpx.Request(
            "POST",
            request.url,
            headers=list(request.headers),
            content=request.body,
            extensions={"trail": request.trail},
        )
    )
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return Reply(response.status_code, response.headers.raw, response.stream)


class GuardedTransport(httpx.AsyncBaseTransport):
    """Owns the connections to receivers. Made inside the event loop that uses it, and kept for as long.

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
        # One pool per scheme: the guard's verdict depends on the scheme, and aiohttp does not tell it to the guard.
        self._connectors = {
            scheme: Connector(
                guard=None if proxy_url else DialGuard(scheme, policy, lookup or system_lookup),
                tls=tls,
            )
            for scheme in ("http", "https")
        }
        self._route = lru_cache(maxsize=32_768)(self._find_route)
        self._dial_request = lru_cache(maxsize=8192)(
            lambda origin: DialRequest("POST", origin, loop=asyncio.get_running_loop())
        )

    async def post(self, request: Post) -> Reply:
        """Raises `RefusedTarget`, or httpx's errors with the operating system's own as their cause."""
        route = self._route(request.url)
        try:
            return await self._ask(request, route=route)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("No connection in time.") from error
        except aiohttp.ClientHttpProxyError as error:
            raise ProxyRefused(f"the egress proxy answered {error.status}") from error
        except aiohttp.ClientConnectorError as error:
            raise httpx.ConnectError("No connection.") from error
        except aiohttp.ClientResponseError as error:
            raise NotHttp(parse_failure(error.message)) from error
        except aiohttp.ClientConnectionError as error:
            raise httpx.ReadError("The connection ended before the answer.") from error

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """httpx's interface, for callers with an `httpx.AsyncClient` or a transport around this one."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        trail = request.extensions.get("trail") or Trail()
        reply = await self.post(Post(str(request.url), headers, await request.aread(), trail))
        return httpx.Response(reply.status_code, headers=list(reply.raw_headers), stream=reply.stream)

    async def aclose(self) -> None:
        for connector in self._connectors.values():
            await connector.close()

    def _find_route(self, url: str) -> "_Route":
        target = parse_target(url, policy=self._policy)
        if self._proxy and target.address is None:
            check_as_public(scheme=target.scheme, port=target.port, policy=self._policy)
        judged = URL(target.url, encoded=True)
        dialled = self._dial_request(judged.origin())
        start = f"POST {judged.raw_path_qs} HTTP/1.1\r\nhost: {dialled.headers[hdrs.HOST]}"
        return _Route(target.url, start, dialled, self._connectors[target.scheme])

    async def _ask(self, request: Post, *, route: "_Route", fresh: bool = False) -> Reply:
        """On an idle connection or a new one; with `fresh`, on a new one.

        Receivers close idle connections whenever they like, and our request may cross that on its way. So there are
        two cases in which a request is sent once more, on a new connection, and no attempt has failed:
        1. An idle connection sent something before our request. Its next bytes may answer anything: it is closed.
        2. A connection that worked before ends without a byte of an answer, or sends bytes that are no HTTP: the
           receiver was closing it. Should it have read the request after all, the second one has the same webhook-id.
        """
        dialled = self._proxied(request, route) if self._proxy else route.dialled
        written = b"" if self._proxy else request_bytes(request, route.start)
        trail = request.trail
        if fresh:
            route.connector.close_idle(dialled.connection_key)
        connection = route.connector.idle(dialled) or await self._dial(route.connector, dialled, trail=trail)
        wire = connection.protocol
        assert isinstance(wire, Wire)
        if wire.should_close and wire.used:
            connection.close()
            return await self._ask(request, route=route, fresh=True)
        trail.connected, trail.address = True, None if self._proxy else wire.peer_address()
        trail.phase = "head"
        reused = wire.start_request()
        try:
            if self._proxy:
                reply = await roundtrip_through_proxy(dialled, connection)
            else:
                reply = await roundtrip(written, wire=wire, connection=connection, trail=trail)
            trail.phase, trail.status_code = "body", reply.status_code
            return reply
        except BaseException as error:
            trail.received = wire.received
            if not reused or not _is_no_answer(wire.received, error):
                raise
        trail.connected, trail.received = False, b""
        return await self._ask(request, route=route, fresh=True)

    async def _dial(self, connector: Connector, dialled: DialRequest, *, trail: Trail) -> Connection:
        try:
            return await connector.dial(dialled, trail=trail)
        except aiohttp.ClientConnectorError as error:
            if error.os_error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            # The process has no file left for it. Idle connections make room.
            for each in self._connectors.values():
                each.abort_all_idle()
            await asyncio.sleep(0)  # that is when they are closed
            return await connector.dial(dialled, trail=trail)

    def _proxied(self, request: Post, route: "_Route") -> DialRequest:
        # Host and length are named here, or aiohttp would write its own in capitals.
        host, length = ("host", route.dialled.headers[hdrs.HOST]), ("content-length", str(len(request.body)))
        return DialRequest(
            "POST",
            URL(route.url, encoded=True),
            headers=[host, *request.headers, length],
            data=request.body,
            proxy=self._proxy,
            loop=asyncio.get_running_loop(),
        )


class _Route(NamedTuple):
    """Where the requests for one URL go. Kept by the transport, so a URL is judged and split once."""

    url: str
    # The first two lines of a request: what is asked for, and of which host.
    start: str
    # Whom aiohttp dials; the same for all URLs of one host.
    dialled: DialRequest
    connector: Connector


def _is_no_answer(received: bytes, error: BaseException) -> bool:
    if isinstance(error, NotHttp):
        return not received.startswith(b"HTTP/")
    return isinstance(error, aiohttp.ClientConnectionError) and not received
