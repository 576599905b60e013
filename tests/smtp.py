"""A mail server on a real socket that takes every mail and keeps it: enough of SMTP for a sender to be content."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[EmailMessage] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline():
            match line[:4].upper():
                case b"QUIT":
                    self._say("221 bye")
                    return
                case b"DATA":
                    self._say("354 go on")
                    self._take()
            self._say("250 ok")

    def _take(self) -> None:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        mail: Any = message_from_bytes(b"".join(lines), policy=policy.default)
        self.server.mails.append(mail)

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)
