"""A test event of any type, made from its example and edited: sent now, its answer shown and kept in the log."""

from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from deliveries.actions import manual_sends
from deliveries.browse.words import explanation, outcome
from deliveries.endpoint_tests import test_event
from deliveries.endpoint_tests.models import SentTest
from deliveries.pages import story
from deliveries.portal import endpoints, words
from deliveries.portal.catalogue import MOST_TYPES, pretty
from deliveries.portal.page import actor, back_to, missing, render
from subscriptions import event_types, ids
from subscriptions.api import parsing
from subscriptions.api.problems import Problem
from subscriptions.models import Consumer, EventType

# Characters; as large as an event may be.
_LONGEST = 256 * 1024


def new(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = endpoints.find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    types = list(event_types.published().prefetch_related("versions").order_by("name")[:MOST_TYPES])
    given = request.POST if request.method == "POST" else request.GET
    name = given.get("type", test_event.TYPE)
    chosen = next((each for each in types if each.name == name), None)
    text = request.POST.get("data", "") if request.method == "POST" else pretty(_example(chosen))
    problem = "" if chosen or name == test_event.TYPE else _("There is no event type %(name)s.") % {"name": name[:100]}
    data, refused = _read(text) if request.method == "POST" else (None, "")
    if request.method == "POST" and not problem and not refused:
        return _send(request, consumer, found.public_id, type=name, data=data or {})
    sent = _find(consumer, request.GET.get("sent", ""))
    return render(
        request,
        consumer,
        "test_event.html",
        title=_("Send a test event"),
        section="Endpoints",
        endpoint=found,
        types=types,
        chosen=name,
        data=text,
        problem=problem or refused,
        newest=SentTest.objects.filter(endpoint=found).order_by("-id")[:10],
        status=400 if problem or refused else 200,
        **(_told(sent) if sent else {}),
    )


def _send(request: HttpRequest, consumer: Consumer, endpoint: str, *, type: str, data: dict[str, Any]) -> HttpResponse:
    found = endpoints.find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    try:
        kept = manual_sends.send_test(found, actor=actor(request), why="", type=type, data=data)[1]
    except test_event.TooManyTests as error:
        return back_to(request, request.path, refused=str(error))
    except test_event.Held:
        return back_to(request, request.path, refused=_("An operator holds deliveries back: nothing goes out."))
    return back_to(request, f"{request.path}?type={quote(type)}&sent={kept.public_id}")


def show(request: HttpRequest, consumer: Consumer, test: str) -> HttpResponse:
    found = _find(consumer, test)
    if found is None:
        return missing(request, consumer, "test")
    return render(
        request,
        consumer,
        "sent_test.html",
        title=_("Test event"),
        section="Endpoints",
        endpoint=found.endpoint,
        **_told(found),
    )


def _find(consumer: Consumer, public_id: str) -> SentTest | None:
    uuid = ids.parse("tst", public_id)
    rows = SentTest.objects.select_related("endpoint").filter(endpoint__consumer=consumer)
    return rows.filter(id=uuid, endpoint__deleted_at__isnull=True).first() if uuid else None


def _told(test: SentTest) -> dict[str, Any]:
    body = bytes(test.response_body) if test.response_body is not None else None
    return {
        "test": test,
        "succeeded": test.status_code is not None and 200 <= test.status_code < 300,
        "outcome": outcome(test.status_code, test.error_kind),
        "explanation": test.error_detail or explanation(test.error_kind),
        "advice": words.what_to_do(test.status_code, test.error_kind or f"http_{test.status_code}"),
        "sent": story.body_of(bytes(test.request_body)),
        "response": story.body_of(body) if body is not None else None,
    }


def _example(chosen: EventType | None) -> Any:
    return test_event.DATA if chosen is None else event_types.newest_example(chosen)


def _read(text: str) -> tuple[dict[str, Any] | None, str]:
    """As strictly as the API reads an event's data."""
    if len(text) > _LONGEST:
        return None, _("The data of an event takes 256 KiB at most.")
    try:
        data = parsing.loads(text.encode())
    except Problem as problem:
        return None, str(problem)
    return (data, "") if isinstance(data, dict) else (None, _("The data of an event is a JSON object."))
