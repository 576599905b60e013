"""webhooks_platform/web/admission.py and slots.py, without a web server: who holds a slot, and until when."""

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast
from wsgiref.types import StartResponse, WSGIApplication

import pytest
from django.db import connection, connections
from django.http import FileResponse, HttpResponse, StreamingHttpResponse

from webhooks_platform.web.admission import BODY, Admission, InSlot
from webhooks_platform.web.bodies import RequestBody
from webhooks_platform.web.slots import RequestSlots

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _this_threads_own_connection() -> Iterator[None]:
    own = connections["default"]
    yield
    connections["default"] = own


def backend() -> int:
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)


def in_a_thread(work: Callable[[], Any]) -> Any:
    """As the web server's threads: each new, none with a connection of its own."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(30)
    [result] = results
    return result


def close_all(slots: RequestSlots) -> None:
    for idle in slots._idle:
        idle.close()


def test_threads_that_come_and_go_share_the_connections_of_the_slots() -> None:
    slots = RequestSlots(2)

    def work() -> int:
        slot = slots.take()
        try:
            return backend()
        finally:
            slots.give_back(slot)

    assert len({in_a_thread(work) for _ in range(5)}) == 1
    close_all(slots)


def test_no_more_threads_work_than_there_are_slots() -> None:
    slots = RequestSlots(2)
    held = [slots.take(), slots.take()]
    third = threading.Thread(target=lambda: slots.give_back(slots.take()), daemon=True)
    third.start()
    third.join(0.2)
    assert third.is_alive()
    slots.give_back(held[0])
    third.join(30)
    assert not third.is_alive()


class Watching:
    """An application that answers what it is given, and a door with one slot in front of it."""

    def __init__(self, answer: Any, settings: Any) -> None:
        settings.WEB_SLOTS = 1
        self._answer = answer
        self.application = Admission(cast(WSGIApplication, InSlot(cast(WSGIApplication, self))))

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Any:
        assert environ[BODY] is environ["wsgi.input"]
        assert self.is_taken
        return self._answer

    @property
    def is_taken(self) -> bool:
        return self.application._slots._tokens.empty()

    def ask(self) -> Any:
        environ = {"PATH_INFO": "/x", "REQUEST_METHOD": "GET", "wsgi.input": io.BytesIO()}
        return self.application(environ, cast(StartResponse, lambda *_: None))


def test_a_plain_answer_is_handed_over_whole_and_frees_its_slot(settings: Any) -> None:
    watching = Watching(HttpResponse(b"done"), settings)
    assert (watching.ask(), watching.is_taken) == ([b"done"], False)


def test_a_file_is_handed_over_whole_and_frees_its_slot(settings: Any) -> None:
    watching = Watching(FileResponse(io.BytesIO(b"x" * 100_000)), settings)
    assert (watching.ask(), watching.is_taken) == ([b"x" * 100_000], False)


def test_an_export_keeps_its_slot_until_it_is_closed(settings: Any) -> None:
    watching = Watching(StreamingHttpResponse(iter([b"a", b"b"])), settings)
    answer = watching.ask()
    assert (list(answer), watching.is_taken) == ([b"a", b"b"], True)
    answer.close()
    assert not watching.is_taken


def test_an_application_that_fails_frees_its_slot(settings: Any) -> None:
    class Failing(Watching):
        def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Any:
            raise ZeroDivisionError

    watching = Failing(None, settings)
    with pytest.raises(ZeroDivisionError):
        watching.ask()
    assert not watching.is_taken


def test_a_body_is_read_without_a_slot_and_never_beyond_its_length(settings: Any) -> None:
    watching = Watching(None, settings)
    seen: list[bool] = []

    class Stream:
        def read(self, size: int | None = None) -> bytes:
            seen.append(watching.is_taken)
            return b"x" * (size or 0)

    slots, clock = watching.application._slots, watching.application._clock
    body = RequestBody(Stream(), path="/api/", length=10, seconds=60, slots=slots, clock=clock, is_form=False)
    body.take_slot()
    assert [body.read(4), body.read(-1), body.read()] == [b"xxxx", b"xxxxxx", b""]
    assert (seen, watching.is_taken) == ([False, False], True)
    body.give_slot_back()
