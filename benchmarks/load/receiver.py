"""A receiver that costs next to nothing: nginx where it is installed, a bare asyncio protocol otherwise.

The asyncio one can also hold its answers back (`/hold/<ms>`) or never give one (`/hang`), and it counts what it was
sent (`/count`), none of which nginx does without modules that not every build of it has.
"""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from benchmarks.load.subprocesses import tethered

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s; client_body_in_single_buffer on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "ok"; }} }}
}}
"""


def kind() -> str:
    return "nginx" if _nginx() else "asyncio"


def _nginx() -> str | None:
    return shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")


@contextmanager
def receiver(folder: Path) -> Iterator[tuple[str, int]]:
    """Its base URL and its pid."""
    port = free_port()
    if nginx := _nginx():
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
        command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with running(command, port) as served:
            yield served
    else:
        with patient_receiver(port) as served:
            yield served


@contextmanager
def patient_receiver(port: int = 0) -> Iterator[tuple[str, int]]:
    """The asyncio one, for receivers that take their time."""
    port = port or free_port()
    with running([sys.executable, "-m", "benchmarks.load.receiver", str(port)], port) as served:
        yield served


@contextmanager
def running(command: list[str], port: int) -> Iterator[tuple[str, int]]:
    """A receiver's process, once it answers on the port: its base URL and its pid."""
    process = subprocess.Popen(tethered(command), stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait(10)


def received(url: str) -> int:
    """How many requests the asyncio receiver there was sent so far, those it never answers included."""
    with urllib.request.urlopen(f"{url}/count", timeout=10) as answer:
        return int(answer.read())


class Receiving(asyncio.Protocol):
    """Reads a head and a body, tells `arrived`, answers. Just enough HTTP for a sender that behaves."""

    count = 0

    def __init__(self, arrived: Callable[[bytes], None] | None = None) -> None:
        self._arrived = arrived
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        while (end := self._seen.find(b"\r\n\r\n")) >= 0:
            head = self._seen[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._seen) < end + 4 + length:
                return
            body, self._seen = self._seen[end + 4 : end + 4 + length], self._seen[end + 4 + length :]
            if self._arrived is not None:
                self._arrived(body)
            self._answer(head.split(b" ", 2)[1])

    def _answer(self, path: bytes) -> None:
        if path == b"/count":
            shown = b"%d" % Receiving.count
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(shown), shown))
            return
        Receiving.count += 1
        if path.startswith(b"/hang"):
            return
        if path.startswith(b"/hold/"):
            seconds = int(path.split(b"/")[2]) / 1000
            asyncio.get_running_loop().call_later(seconds, self._transport.write, ANSWER)
        else:
            self._transport.write(ANSWER)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit("The receiver did not start.")


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Receiving, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(int(sys.argv[1])))
