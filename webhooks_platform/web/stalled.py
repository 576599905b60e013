"""Cuts connections on which nothing moves any more, though they are not idle in the web server's eyes.

Between requests the web server itself hangs up on idle connections (after 30 s), and on slow headers. It does not on a
client that was answered 408 and keeps its half-sent body to itself, nor on one that reads no more of its answer. Of
both the kernel knows: we spoke last, and nobody has for longer than the web server would have waited for a new request.
A connection whose request is still being worked on is not meant: there the client spoke last. Only when it has not
heard from us for longer than any request takes is it cut all the same: a client that goes on sending a byte now and
then would otherwise stay for ever.
"""

import logging
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

_DESCRIPTORS = Path("/proc/self/fd")
# Of the kernel's `struct tcp_info`: the state, milliseconds since data was last sent (byte 44), and since it last came
# (byte 52).
_TCP_INFO = struct.Struct("=B43xI4xI")
_ESTABLISHED, _CLOSE_WAIT = 1, 8


class StalledConnections:
    """Looked for by the clock of a web process; no business of any other.

    `seconds` is how long nothing may move after we spoke; `longest_seconds` how long we may say nothing at all.
    """

    def __init__(self, *, seconds: float, longest_seconds: float) -> None:
        self._seconds = seconds
        self._longest_seconds = longest_seconds
        self._look_again_at = 0.0

    def cut_now_and_then(self) -> None:
        now = time.monotonic()
        if now >= self._look_again_at:
            self._look_again_at = now + min(5.0, self._seconds / 4)
            self.cut()

    def cut(self) -> int:
        """How many there were."""
        sockets = list(_own_sockets())
        ports = {port for one in sockets if _listens(one) and (port := _port(one))}
        stalled = [one for one in sockets if _port(one) in ports and not _listens(one) and self._is_stalled(one)]
        for one in stalled:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for one in sockets:
            one.close()
        if stalled:
            logger.warning("connections.cut", extra={"fields": {"count": len(stalled)}})
        return len(stalled)

    def _is_stalled(self, one: socket.socket) -> bool:
        try:
            info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        except OSError:
            return False
        state, sent_ms, came_ms = _TCP_INFO.unpack(info)
        limit_ms = self._seconds * 1000
        is_still = limit_ms < sent_ms < came_ms or sent_ms > self._longest_seconds * 1000
        return bool(state in (_ESTABLISHED, _CLOSE_WAIT) and is_still)


def _own_sockets() -> Iterator[socket.socket]:
    """Copies: what is closed by others meanwhile, and its number used again, is no concern of ours."""
    for entry in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
        with suppress(OSError):
            if str(entry.readlink()).startswith("socket:"):
                yield socket.fromfd(int(entry.name), socket.AF_INET, socket.SOCK_STREAM)


def _listens(one: socket.socket) -> bool:
    with suppress(OSError):
        return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False


def _port(one: socket.socket) -> int:
    """0 for what has none, such as a Unix socket."""
    with suppress(OSError, IndexError, TypeError):
        name = one.getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0
    return 0
