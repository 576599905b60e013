"""Part of send: one POST, what came back, and how far it got. Values that `send` and the transport exchange."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import httpx

# How far a request came. `proxy`: the egress proxy is asked to connect us.
Phase = Literal["dns", "connect", "proxy", "handshake", "sending", "head", "body"]


class Trail:
    """How far one request came. The transport writes it as it goes, so `send` can explain a request without an answer.

    The defaults are class attributes: most attempts change only a few of them.
    """

    connected = False
    address: str | None = None
    phase: Phase = "dns"
    status_code: int | None = None
    # The first bytes of the answer, if its head never came to an end.
    received = b""


class Post(NamedTuple):
    """One request, as `send` hands it to the transport."""

    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    trail: Trail


class Reply(NamedTuple):
    """The answer to a `Post` whose head has arrived. Its reader closes the stream."""

    status_code: int
    raw_headers: Sequence[tuple[bytes, bytes]]
    stream: httpx.AsyncByteStream


class NotHttp(httpx.RemoteProtocolError):
    """The answer is not HTTP. Its text is the parser's, safe to show."""


class ProxyRefused(httpx.ProxyError):
    """The egress proxy did not connect us. Its text is safe to show."""
