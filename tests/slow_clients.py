"""Clients that take their time: they open connections to a running web server and say less than they announced."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.local import wait_until


class SlowClient:
    """One connection, and what has come over it so far."""

    def __init__(self, url: str, sent: bytes) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=30)
        self._socket.sendall(sent)
        self._socket.setblocking(False)
        self.answer = b""
        self.is_closed = False

    def look(self) -> "SlowClient":
        """Takes in what has come."""
        try:
            while not self.is_closed:
                data = self._socket.recv(65536)
                self.answer += data
                self.is_closed = not data
        except BlockingIOError:
            pass
        except ConnectionError:
            self.is_closed = True
        return self

    @property
    def status(self) -> int:
        """0 while there is none."""
        return int(self.answer[9:12] or 0)

    @property
    def body(self) -> bytes:
        return self.answer.partition(b"\r\n\r\n")[2]

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def half_close(self) -> None:
        """Has said all it will say, and still listens."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def slow_clients(url: str, sent: bytes, *, count: int) -> Iterator[list[SlowClient]]:
    clients = [SlowClient(url, sent) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def slow_body(path: str, *, headers: str = "", length: int = 1000, first: bytes = b"abc") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {length}\r\n\r\n"
    return head.encode() + first


def wait_answered(clients: list[SlowClient], status: int, *, seconds: float = 30) -> None:
    wait_until(lambda: all(client.look().status == status for client in clients), seconds=seconds)


def wait_closed(clients: list[SlowClient], *, seconds: float = 30) -> None:
    wait_until(lambda: all(client.look().is_closed for client in clients), seconds=seconds)
