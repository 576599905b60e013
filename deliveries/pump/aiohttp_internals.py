"""Part of send: what the transport uses of aiohttp beyond its documented interface. Nothing else imports these.

aiohttp may move any of them in a minor release, so `pyproject.toml` allows one minor release only. The table says what
each is needed for, and since which minor release it has been as it is now (releases before 3.8 were not looked at).
tests/unit/deliveries/pump/test_aiohttp_internals.py compares the table with the aiohttp that is installed and with the
code; `make test-newest` does so with the newest release, and runs the transport's tests on it.
"""

from typing import NamedTuple

from aiohttp import ClientRequest, ClientResponse, StreamReader, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError

__all__ = ["INTERNALS", "Connection", "ConnectionKey", "HttpProcessingError", "Internal", "ResponseHandler"]


class Internal(NamedTuple):
    """One attribute or method of an aiohttp class. `parameters` are the ones that we pass, by name or in this order."""

    owner: type
    name: str
    since: str
    why: str
    parameters: tuple[str, ...] = ()


_LIMITS = ("max_line_size", "max_field_size", "max_headers")
_READING = ("read_until_eof", "auto_decompress", "read_bufsize")
_REQUEST = ("method", "url", "headers", "data", "proxy", "loop")

INTERNALS = (
    # The protocol of one connection, subclassed by `Wire`.
    Internal(ResponseHandler, "data_received", "3.8", "gives head and body to the parser one by one", ("data",)),
    Internal(ResponseHandler, "set_response_params", "3.13", "limits for the next answer", (*_READING, *_LIMITS)),
    Internal(ResponseHandler, "_parser", "3.8", "None while no request was sent: early bytes are aiohttp's to keep"),
    Internal(ResponseHandler, "_buffer", "3.8", "heads that were parsed and not read yet: the head is complete"),
    Internal(ResponseHandler, "_exception", "3.8", "the parser has failed: it gets no more"),
    Internal(ResponseHandler, "_payload", "3.8", "the body that is being received: what comes after it is not parsed"),
    Internal(ResponseHandler, "_loop", "3.8", "made for the connector's event loop"),
    Internal(ResponseHandler, "should_close", "3.8", "an idle connection that received something is not used"),
    Internal(ResponseHandler, "force_close", "3.8", "a connection with stray bytes after an answer is not used again"),
    Internal(ResponseHandler, "is_connected", "3.8", "an idle connection that was closed is not used"),
    Internal(ResponseHandler, "abort", "3.12", "ends a connection whose receiver does not read"),
    Internal(ResponseHandler, "read", "3.8", "waits for the next head"),
    Internal(ResponseHandler, "exception", "3.8", "why a connection ended before the request"),
    Internal(ResponseHandler, "set_exception", "3.8", "ends the wait for a head", ("exc",)),
    # The body of one answer.
    Internal(StreamReader, "total_bytes", "3.8", "how much of the body was parsed: more bytes are stray ones"),
    Internal(StreamReader, "set_exception", "3.8", "ends the wait for a body that is no HTTP", ("exc",)),
    # The pool, subclassed by `Connector`.
    Internal(TCPConnector, "connect", "3.8", "a connection without a session", ("req", "traces", "timeout")),
    Internal(TCPConnector, "_factory", "3.8", "makes our protocol for a new connection"),
    Internal(TCPConnector, "_wrap_create_connection", "3.8", "is called when a name has been looked up"),
    Internal(TCPConnector, "_conns", "3.11", "idle connections by key, oldest first, each with its time"),
    Internal(TCPConnector, "_acquired", "3.8", "connections in use, from which `release` takes them"),
    Internal(TCPConnector, "_loop", "3.8", "the event loop of connections"),
    Internal(Connection, "__init__", "3.8", "an idle connection handed out", ("connector", "key", "protocol", "loop")),
    Internal(Connection, "protocol", "3.8", "our protocol; None when the connection was given back"),
    Internal(Connection, "release", "3.8", "gives the connection back to the pool"),
    # Whom to dial; through a proxy, the request itself.
    Internal(ClientRequest, "__init__", "3.8", "made without a session", _REQUEST),
    Internal(ClientRequest, "connection_key", "3.8", "what connections are told apart by"),
    Internal(ClientRequest, "DEFAULT_HEADERS", "3.8", "ours, in lower case"),
    Internal(ClientRequest, "send", "3.8", "a request through a proxy", ("conn",)),
    Internal(ClientResponse, "start", "3.8", "waits for the head of its answer", ("connection",)),
)
