"""Readers of the feed that wait for news: `GET consumers/{id}/feed/?wait=20`.

A request that finds nothing says what it waits for (`deliveries/api/feed.py`). It gives its slot back and waits here,
as a thread that does nothing, until there is news or its time is up; with news it is answered as if it had just come.
One more thread looks for everybody's news at once, one statement every quarter of a second, only while somebody waits.

How many may wait is bounded, in all and for each consumer: every one holds a thread and a connection that an emit could
have. One more is answered with its empty page at once.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from django.conf import settings
from django.db import connection

from deliveries.api.feed import HAS_WAITED, WAITS_FOR, FeedWait
from deliveries.browse import feed
from deliveries.browse.feed import FeedReader
from webhooks_platform.web.admission import BODY, Environ

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.25


class LongPoll:
    """The WSGI application in front of Django's. It holds an answer back; every other request passes untouched."""

    def __init__(self, django: WSGIApplication) -> None:
        self._django = django
        self._waiting = WaitingReaders(
            most=settings.FEED_MAX_WAITING, most_of_one=settings.FEED_MAX_WAITING_PER_CONSUMER, look=feed.with_news
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if not _may_wait(environ):
            return self._django(environ, start_response)
        first = HeldAnswer(self._django, environ)
        wait: FeedWait | None = environ.pop(WAITS_FOR, None)
        if wait is not None:
            environ[BODY].give_slot_back()
            if self._waiting.wait(wait.place, seconds=wait.seconds):
                environ[HAS_WAITED] = True
                return self._django(environ, start_response)
        return first.release(start_response)


def _may_wait(environ: Environ) -> bool:
    return (
        "wait=" in environ.get("QUERY_STRING", "")
        and environ["REQUEST_METHOD"] == "GET"
        and environ["PATH_INFO"].rstrip("/").endswith("/feed")
    )


class HeldAnswer:
    """An answer that was made and not yet sent."""

    def __init__(self, application: WSGIApplication, environ: Environ) -> None:
        self._begun: tuple[Any, ...] = ()
        answer = application(environ, self._start_response)
        try:
            self._body = [b"".join(answer)]
        finally:
            if hasattr(answer, "close"):
                answer.close()

    def release(self, start_response: StartResponse) -> list[bytes]:
        start_response(*self._begun)
        return self._body

    def _start_response(self, *begun: Any) -> Callable[[bytes], object]:
        self._begun = begun
        return _write


class WaitingReaders:
    """Who waits, and the thread that looks for them. One per web process."""

    def __init__(
        self,
        *,
        most: int,
        most_of_one: int,
        look: Callable[[Sequence[FeedReader]], set[int]],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._look = look
        self._look_seconds = look_seconds
        self._lock = threading.Lock()
        self._readers: list[_Reader] = []
        self._is_looking = False

    def wait(self, place: FeedReader, *, seconds: float) -> bool:
        """True as soon as there is news; False when the time is up, or at once where too many wait."""
        reader = _Reader(place)
        with self._lock:
            of_one = sum(other.place.consumer_id == place.consumer_id for other in self._readers)
            if len(self._readers) >= self._most or of_one >= self._most_of_one:
                return False
            self._readers.append(reader)
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._look_for_all, name="feed news", daemon=True).start()
        try:
            return reader.news.wait(seconds) and not reader.failed
        finally:
            with self._lock:
                self._readers.remove(reader)

    def count(self) -> int:
        with self._lock:
            return len(self._readers)

    def _look_for_all(self) -> None:
        """Ends with the last reader: a process whose feed nobody reads asks nothing."""
        try:
            while readers := self._still_waiting():
                self._tell(readers)
                time.sleep(self._look_seconds)
        finally:
            connection.close()

    def _still_waiting(self) -> list["_Reader"]:
        with self._lock:
            self._is_looking = bool(self._readers)
            return [reader for reader in self._readers if not reader.news.is_set()] or list(self._readers)

    def _tell(self, readers: list["_Reader"]) -> None:
        try:
            found = self._look([reader.place for reader in readers])
        except Exception:
            # They are answered with what they have, and come again: their next request says what is wrong.
            logger.exception("feed.look_failed")
            connection.close()
            for reader in readers:
                reader.failed = True
                reader.news.set()
            return
        for index in found:
            readers[index].news.set()


class _Reader:
    __slots__ = ("failed", "news", "place")

    def __init__(self, place: FeedReader) -> None:
        self.place = place
        self.news = threading.Event()
        self.failed = False


def _write(_: bytes) -> None:
    raise NotImplementedError("Nothing here writes before it answers.")
