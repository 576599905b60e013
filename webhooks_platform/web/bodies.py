"""A request's body has to arrive in time; nobody else waits for it.

The web server's own `read` cannot be interrupted. When a body is late, a thread of this process (the clock) answers the
client with 408 in place of the thread that still waits. Most clients then hang up, which ends that wait too; where one
does not, the connection is cut some time later (`stalled.py`).
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import granian.wsgi
from django.db.backends.base.base import BaseDatabaseWrapper

from webhooks_platform.web.refusals import WebRefusal, too_slow
from webhooks_platform.web.slots import RequestSlots

logger = logging.getLogger(__name__)

# How often the clock looks (seconds).
TICK_SECONDS = 0.25


class BodyTooSlow(BaseException):
    """The client has been answered, so the request ends here. Not an Exception: nothing below may make it an answer."""


class BodyCutShort(BaseException):
    """The client hung up before the end of a form. Half a form is not acted on."""


class Stream(Protocol):
    def read(self, size: int | None = None) -> bytes: ...


class BodyDeadlines:
    """Knows the bodies that threads wait for, and until when. One per web process."""

    def __init__(self, *, every_tick: Callable[[], None] = lambda: None) -> None:
        self._until: dict[RequestBody, float] = {}
        self._every_tick = every_tick
        self._lock = threading.Lock()
        self._runs = False

    def begin(self, body: "RequestBody") -> None:
        self._until[body] = body.deadline
        if not self._runs:
            self._start()

    def end(self, body: "RequestBody") -> bool:
        """Whether it was still waited for. False: the clock has answered."""
        return self._until.pop(body, None) is not None

    def _start(self) -> None:
        with self._lock:
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="request clock", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(TICK_SECONDS)
            try:
                self.look()
                self._every_tick()
            except Exception:
                logger.exception("clock.failed")

    def look(self) -> None:
        now = time.monotonic()
        for body in [body for body, deadline in list(self._until.items()) if deadline <= now]:
            # Found first, claimed second: while the body is still waited for, its thread is still at this request.
            protocol = _protocol_of(body.thread_id)
            if protocol is not None and self.end(body):
                _answer(protocol, too_slow(body.path), body.request_id)
                fields = {"path": body.path, "length": body.length, "request_id": body.request_id}
                logger.warning("request.timed_out", extra={"fields": fields})


class RequestBody:
    """Stands in for `wsgi.input`. Its time runs from the first read, and is longer the more was announced.

    It also holds the request's slot: none while a read waits, one from then on.
    """

    __slots__ = ("_clock", "_is_form", "_left", "_seconds", "_slot", "_slots", "_stream", "deadline", "length", "path",
                 "request_id", "thread_id")  # fmt: skip

    def __init__(
        self,
        stream: Stream,
        *,
        path: str,
        length: int,
        seconds: float,
        slots: RequestSlots,
        clock: BodyDeadlines,
        is_form: bool,
        request_id: str = "",
    ) -> None:
        self.path = path
        self.request_id = request_id
        self.length = length
        self.thread_id = threading.get_ident()
        self.deadline = 0.0
        self._stream = stream
        self._left = length
        self._seconds = seconds
        self._slots = slots
        self._slot: BaseDatabaseWrapper | None = None
        self._clock = clock
        self._is_form = is_form

    def take_slot(self) -> None:
        """Before anything that needs the database."""
        if self._slot is None:
            self._slot = self._slots.take()

    def give_slot_back(self) -> None:
        if self._slot is not None:
            self._slots.give_back(self._slot)
            self._slot = None

    def read(self, size: int | None = None) -> bytes:
        """Up to so many bytes, and never more than were announced."""
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        if wanted == 0:
            return b""
        if not self.deadline:
            self.deadline = time.monotonic() + self._seconds
        self.give_slot_back()
        self._clock.begin(self)
        try:
            data = self._stream.read(wanted)
        except BaseException:
            # Nobody waits for it any more: the clock must not answer in place of what this thread does next.
            if not self._clock.end(self):
                raise BodyTooSlow from None
            raise
        if not self._clock.end(self):
            raise BodyTooSlow
        self.take_slot()
        self._left -= len(data)
        if len(data) < wanted and self._is_form:
            raise BodyCutShort
        return data

    def readline(self, size: int | None = None) -> bytes:
        raise NotImplementedError("Nothing here reads a body by lines.")


def _answer(protocol: Any, refusal: WebRefusal, request_id: str) -> None:
    protocol.response_bytes(refusal.status, [*refusal.headers, ("X-Request-Id", request_id)], refusal.body)


def _protocol_of(thread_id: int) -> Any:
    """What the web server answers this thread's request with: it keeps it to itself, one frame above ours."""
    frame: FrameType | None = sys._current_frames().get(thread_id)
    while frame is not None:
        if frame.f_code.co_filename == granian.wsgi.__file__ and "proto" in frame.f_locals:
            return frame.f_locals["proto"]
        frame = frame.f_back
    return None
