"""Sends drawn requests to a running server."""

import http.client
from contextlib import closing, suppress
from dataclasses import dataclass

from tests.fuzz.requests import Request

SECONDS = 30


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """Talks to the server at `host:port`. A connection for each request: after an answer to a stranger, whose body it
    did not read, the server hangs up.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def send(self, request: Request, key: str | None) -> Answer | None:
        """The answer; None where the server hung up without one."""
        connection = http.client.HTTPConnection(self._address, timeout=SECONDS)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.putrequest(request.method, request.target, skip_accept_encoding=True)
            for name, value in request.headers.items():
                connection.putheader(name, value.encode("latin-1"))
            if key is not None:
                connection.putheader("Authorization", f"Bearer {key}")
            if request.body:
                connection.putheader("Content-Length", str(len(request.body)))
            # Who answers before it has read everything may have hung up by the time we have sent it.
            with suppress(ConnectionError):
                connection.endheaders(request.body or None)
            response = connection.getresponse()
            body = response.read()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)
        return None
