"""The catalogue: event types declared, described, versioned, deprecated, archived, deleted.

A form is turned into what the API's own shape checks, so a page takes nothing that the API would refuse.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode

from deliveries.console.page import actor_of, back_to, first_error, missing, render, why_of
from subscriptions import event_types
from subscriptions.actions import event_types as actions
from subscriptions.api import parsing
from subscriptions.api.event_types import EventTypeIn, NewEventTypeIn
from subscriptions.api.problems import Problem
from subscriptions.models import AuditEntry, Endpoint, EventType

STATES = {"published": "published", "undeclared": "never declared", "archived": "archived", "all": "any"}
_PAGE = 100
_ASKING_SHOWN = 20

# What a button changes, and what is said when it is done.
SWITCHES: dict[str, tuple[dict[str, bool], str]] = {
    "declare": ({}, "Declared: consumers see it from now on."),
    "deprecate": ({"deprecated": True}, "Deprecated. It is still sent; the catalogue says that it is old."),
    "undeprecate": ({"deprecated": False}, "No longer deprecated."),
    "archive": ({"archived": True}, "Archived. New events of this type are refused."),
    "restore": ({"archived": False}, "Back in the catalogue. Events of this type are accepted again."),
}
ACTIONS = {*SWITCHES, "describe", "version", "delete"}


class _Unreadable(Exception):
    """What was typed is no JSON, or nothing that the catalogue takes. Says what."""


def index(request: HttpRequest) -> HttpResponse:
    """By name, a page at a time."""
    state, text, after = (request.GET.get(key, "").strip() for key in ("state", "q", "after"))
    rows = EventType.objects.prefetch_related("versions").order_by("name")
    if state == "archived":
        rows = rows.filter(archived_at__isnull=False)
    elif state == "undeclared":
        rows = rows.filter(declared_at__isnull=True, archived_at__isnull=True)
    elif state != "all":
        rows = rows.filter(declared_at__isnull=False, archived_at__isnull=True)
    if text:
        rows = rows.filter(name__icontains=text)
    found = list(rows.filter(name__gt=after)[: _PAGE + 1])
    following = urlencode({"state": state, "q": text, "after": found[_PAGE - 1].name}) if len(found) > _PAGE else ""
    return render(
        request,
        "event_types.html",
        title="Event types",
        rows=found[:_PAGE],
        following=following,
        states=STATES,
        state=state if state in STATES else "published",
        q=text,
    )


def show(request: HttpRequest, name: str) -> HttpResponse:
    found = event_types.find(name)
    return missing(request, "event type") if found is None else _page(request, found, {})


def new(request: HttpRequest) -> HttpResponse:
    return _form(request, {"api_version": "1"})


def declare(request: HttpRequest) -> HttpResponse:
    typed = _typed(request)
    given: dict[str, Any] = {"name": typed["name"].strip(), "description": typed["description"]}
    try:
        if any(typed[part].strip() for part in ("schema", "example")):
            given["versions"] = [_version(typed)]
        fields = _checked(NewEventTypeIn(data=given))
        made = actions.create(**fields, actor=actor_of(request), why=why_of(request))
    except event_types.NameTaken:
        return _form(request, typed, problem="The catalogue has an event type of this name.")
    except (_Unreadable, event_types.SchemaInvalid) as error:
        return _form(request, typed, problem=_told(error))
    return back_to(request, reverse("admin:event-type", args=[made.name]), done="Declared: consumers see it now.")


def act(request: HttpRequest, name: str, action: str) -> HttpResponse:
    found = event_types.find(name)
    if found is None or action not in ACTIONS:
        return missing(request, "event type" if found is None else "action")
    if action == "delete":
        return _delete(request, found)
    here, typed = reverse("admin:event-type", args=[name]), _typed(request)
    try:
        changes, done = _changes(action, typed)
        actions.update(found, changes, actor=actor_of(request), why=why_of(request))
    except (_Unreadable, event_types.SchemaInvalid) as error:
        return _page(request, found, {**typed, "action": action}, problem=_told(error))
    return back_to(request, here, done=done)


def _changes(action: str, typed: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    if action in SWITCHES:
        changes, done = SWITCHES[action]
        return dict(changes), done
    if action == "describe":
        given: dict[str, Any] = {"description": typed["description"]}
        return _checked(EventTypeIn(data=given, partial=True)), "Saved."
    given = {"versions": [_version(typed)]}
    return _checked(EventTypeIn(data=given, partial=True)), f"Version {typed['api_version'].strip()} is saved."


def _delete(request: HttpRequest, found: EventType) -> HttpResponse:
    actions.delete(found, actor=actor_of(request), why=why_of(request))
    if event_types.find(found.name) is None:
        return back_to(request, reverse("admin:event-types"), done=f"{found.name} is deleted.", stay=True)
    here = reverse("admin:event-type", args=[found.name])
    return back_to(request, here, done="It is in use, so it was archived instead: new events of it are refused.")


def _page(request: HttpRequest, found: EventType, typed: Mapping[str, str], *, problem: str = "") -> HttpResponse:
    asking = Endpoint.objects.filter(event_types__contains=[found.name], deleted_at__isnull=True)
    versions = [
        {
            "api_version": each.api_version,
            "schema": _shown(each.schema),
            "example": _shown(each.example),
            "is_typed": typed.get("api_version", "").strip() == each.api_version,
        }
        for each in sorted(found.versions.all(), key=lambda each: each.api_version)
    ]
    is_known = any(each["is_typed"] for each in versions)
    return render(
        request,
        "event_type.html",
        title="Event type",
        status=400 if problem else 200,
        type=found,
        versions=versions,
        description=typed["description"] if typed.get("action") == "describe" else found.description,
        typed=typed,
        new_version=typed if typed.get("action") == "version" and not is_known else {},
        problem=problem,
        asking=asking.select_related("consumer").order_by("id")[:_ASKING_SHOWN],
        entries=AuditEntry.objects.filter(target=found.name, action__startswith="event_type.").order_by("-id")[:10],
    )


def _form(request: HttpRequest, typed: Mapping[str, str], *, problem: str = "") -> HttpResponse:
    title = "New event type"
    status = 400 if problem else 200
    return render(request, "event_type_new.html", title=title, typed=typed, problem=problem, status=status)


def _typed(request: HttpRequest) -> dict[str, str]:
    names = ("name", "description", "api_version", "schema", "example", "why")
    # Browsers send a line's end as two characters.
    return {name: request.POST.get(name, "").replace("\r\n", "\n") for name in names}


def _version(typed: Mapping[str, str]) -> dict[str, Any]:
    return {
        "api_version": typed["api_version"].strip(),
        "schema": _json(typed["schema"], "schema"),
        "example": _json(typed["example"], "example"),
    }


def _json(text: str, what: str) -> Any:
    """None where nothing was typed."""
    if not text.strip():
        return None
    try:
        return parsing.loads(text.encode(errors="replace"))
    except Problem as problem:
        raise _Unreadable(f"The {what} is no JSON that we can take: {problem.detail}") from None


def _checked(shape: NewEventTypeIn) -> dict[str, Any]:
    if not shape.is_valid():
        raise _Unreadable(first_error(shape.errors))
    return dict(shape.validated_data)


def _told(error: Exception) -> str:
    if not isinstance(error, event_types.SchemaInvalid):
        return str(error)
    place = error.pointer.removeprefix("/versions/0")
    return f"{error} (at {place})" if place else str(error)


def _shown(value: Any) -> str:
    return "" if value is None else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
