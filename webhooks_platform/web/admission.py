"""The first and the last WSGI application before Django: a body is bounded in size and time, and work takes a slot.

Between them, most emits are answered (`deliveries/api/answer_before_django.py`): the body is read before a slot is
taken.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from django.conf import settings

from webhooks_platform.web.bodies import BodyCutShort, BodyDeadlines, BodyTooSlow, RequestBody
from webhooks_platform.web.refusals import WebRefusal, cut_short, too_large
from webhooks_platform.web.slots import RequestSlots
from webhooks_platform.web.stalled import StalledConnections

Environ = dict[str, Any]

# Where a request carries its Body: `wsgi.input` may be replaced by one that was read.
BODY = "webhooks.body"

# Where an event's whole body is pasted into a form, in which a character may take three.
_SIGNATURE_DEBUGGER = "/portal/signatures/"

# Longer than any request is worked on: a check-up takes 40 at most (seconds).
_WORK_SECONDS = 45


class Admission:
    def __init__(self, inner: WSGIApplication) -> None:
        stalled = StalledConnections(
            seconds=settings.CONNECTION_STALL_SECONDS, longest_seconds=longest_request_seconds()
        )
        self._inner = inner
        self._slots = RequestSlots(settings.WEB_SLOTS)
        self._clock = BodyDeadlines(every_tick=stalled.cut_now_and_then)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        length = _length(environ)
        is_form = not path.startswith("/api/")
        if is_form and length > (limit := _page_limit(path)):
            return _refuse(start_response, too_large(path, limit))
        body = RequestBody(
            environ["wsgi.input"],
            path=path,
            length=length,
            seconds=settings.REQUEST_BODY_TIMEOUT_SECONDS + length / settings.REQUEST_BODY_MIN_BYTES_PER_SECOND,
            slots=self._slots,
            clock=self._clock,
            is_form=is_form,
            request_id=environ.get("HTTP_X_REQUEST_ID", ""),
        )
        environ["wsgi.input"] = environ[BODY] = body
        answer: Iterable[bytes] = []
        try:
            answer = _handed_over(self._inner(environ, start_response), body)
        except BodyTooSlow:
            pass
        except BodyCutShort:
            answer = _refuse(start_response, cut_short(path))
        finally:
            if not isinstance(answer, InPieces):
                body.give_slot_back()
        return answer


class InSlot:
    """Django, which may ask the database at any time."""

    def __init__(self, django: WSGIApplication) -> None:
        self._django = django

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        environ[BODY].take_slot()
        return self._django(environ, start_response)


def _length(environ: Environ) -> int:
    given = environ.get("CONTENT_LENGTH") or ""
    # The web server has refused whatever is no number. Without a length nothing is read (411 under /api/).
    return int(given) if given.isdecimal() else 0


def longest_request_seconds() -> float:
    """The longest time in which an honest client hears nothing: the largest body at the slowest rate, then the work."""
    largest = max(settings.MAX_BATCH_BODY_BYTES, settings.MAX_BODY_BYTES, _page_limit(_SIGNATURE_DEBUGGER))
    body_seconds = settings.REQUEST_BODY_TIMEOUT_SECONDS + largest / settings.REQUEST_BODY_MIN_BYTES_PER_SECOND
    return float(max(settings.CONNECTION_STALL_SECONDS, body_seconds + _WORK_SECONDS))


def _page_limit(path: str) -> int:
    limit: int = settings.MAX_PAGE_BODY_BYTES
    return max(limit, 4 * settings.MAX_BODY_BYTES) if path == _SIGNATURE_DEBUGGER else limit


class InPieces:
    """An answer too large to be made at once, such as an export. It asks the database on the way, so it keeps the slot:
    only who is logged in gets one, and a reader that stalls is cut off."""

    def __init__(self, answer: Iterable[bytes], body: RequestBody) -> None:
        self._answer = answer
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        finally:
            self._body.give_slot_back()


def _handed_over(answer: Iterable[bytes], body: RequestBody) -> Iterable[bytes]:
    """In one piece, files too: handed over bit by bit, it would hold its slot for as long as a slow reader likes."""
    if isinstance(answer, list):
        return answer
    if getattr(answer, "streaming", False) and not hasattr(answer, "file_to_stream"):
        return InPieces(answer, body)
    try:
        return [b"".join(answer)]
    finally:
        if hasattr(answer, "close"):
            answer.close()


def _refuse(start_response: StartResponse, refusal: WebRefusal) -> list[bytes]:
    start_response(refusal.status_line, refusal.headers)
    return [refusal.body]
