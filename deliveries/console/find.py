"""One box for everything: an id, whole or its end, a producer's id, a consumer, an ordering key, an event type, an
endpoint's URL, an answer in words, the address of a page or an API object. One hit goes straight to its page."""

import re
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from deliveries.browse import short_ids, words
from deliveries.browse.events import events_by_producer_id
from deliveries.browse.filter import known_error_kind
from deliveries.browse.source import events_of_key
from deliveries.console.page import render
from deliveries.models import Attempt, Event
from subscriptions import ids
from subscriptions.models import Consumer, Endpoint, EventType

_LIMIT = 20
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PAGES = {
    "dlv": "delivery", "ep": "endpoint", "con": "consumer", "rpl": "replay", "evt": "event", "key": "key"
}  # fmt: skip
# In addresses of ours, what follows these is a consumer's uid, or an event type's name.
_NAMED = ("consumers", "event-types", "events")


def show(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()
    hits = _hits(text) if text else []
    if len(hits) == 1:
        return HttpResponseRedirect(hits[0]["url"])
    return render(request, "find.html", title="Find", q=text, hits=hits)


def _hits(text: str) -> list[dict[str, Any]]:
    if _ADDRESS.match(text):
        return [*_of_address(text), *_endpoints(_bare(text))]
    if (found := _whole_id(text)) is not None:
        return found
    return [
        *(_named(found.prefix, found.id) for found in short_ids.find(text)),
        *_consumers(text),
        *_events(text),
        *_types(text),
        *_endpoints(text),
        *_dead_letters(text),
    ]


def _whole_id(text: str) -> list[dict[str, Any]] | None:
    """None for what is no whole id of ours."""
    for prefix in _PAGES:
        if uuid := ids.parse(prefix, text):
            return [_named(prefix, uuid)]
    if attempt_id := ids.parse("att", text):
        attempts = Attempt.objects.filter(id=attempt_id).values_list("delivery_id", flat=True)
        return [_named("dlv", delivery_id) for delivery_id in attempts]
    return None


def _of_address(text: str) -> list[dict[str, Any]]:
    """What an address of API, console or portal is about: the last id in its path, a name, or an id it filters by."""
    try:
        split = urlsplit(text)
    except ValueError:
        return []
    # A NUL can be written twice as escaped, and PostgreSQL takes none.
    parts = [unquote(part).replace("\0", "") for part in split.path.split("/") if part]
    for part in reversed(parts):
        if found := _whole_id(part) or ([_named("evt", UUID(part))] if _UUID.fullmatch(part) else None):
            return found
    for place, name in reversed(list(pairwise(parts))):
        if place in _NAMED and (found := _consumers(name) if place == "consumers" else _types(name)):
            return found
    asked = [value for values in parse_qs(split.query).values() for value in values]
    return [hit for value in asked for hit in _whole_id(value) or []][:_LIMIT]


def _bare(address: str) -> str:
    """Without what people add or leave out: scheme, a slash at the end, what stands behind `#`."""
    return _ADDRESS.sub("", address).partition("#")[0].rstrip("/")


def _named(prefix: str, uuid: UUID) -> dict[str, Any]:
    page, name = _PAGES[prefix], ids.show(prefix, uuid)
    return {"url": reverse(f"admin:{page}", args=[uuid if page == "event" else name]), "what": page, "name": name}


def _consumers(text: str) -> list[dict[str, Any]]:
    named = Consumer.objects.filter(Q(uid=text) | Q(name__icontains=text), deleted_at__isnull=True).order_by("-id")
    return [{**_named("con", each.id), "name": str(each), "detail": each.name} for each in named[:_LIMIT]]


def _events(text: str) -> list[dict[str, Any]]:
    event_ids = [event_id for event_id, _ in events_by_producer_id(text)]
    event_ids += [event_id for event_id, _ in events_of_key(text, consumer_id=None, limit=_LIMIT)]
    events = Event.objects.filter(id__in=event_ids).select_related("consumer").defer("body").order_by("-id")
    return [_event(event) for event in events]


def _types(text: str) -> list[dict[str, Any]]:
    found = EventType.objects.filter(name=text.lower())
    return [
        {"url": reverse("admin:event-type", args=[each.name]), "what": "event type", "name": each} for each in found
    ]


def _endpoints(text: str) -> list[dict[str, Any]]:
    matching = Q(url__icontains=text) | Q(description__icontains=text)
    found = Endpoint.objects.filter(matching, deleted_at__isnull=True).select_related("consumer").order_by("-id")
    return [{**_named("ep", each.id), "name": each.url, "detail": str(each.consumer)} for each in found[:_LIMIT]]


def _dead_letters(text: str) -> list[dict[str, Any]]:
    """A list of them, for an answer or a reason in words: `Last answer: 500`, `read timeout`, `Waited too long`."""
    lists = []
    if kind := known_error_kind(text):
        lists.append((f"Last answer: {words.kind(kind)}", {"error": kind}))
    plain = text.lower().replace("_", " ")
    lists += [
        (advice.title, {"reason": reason})
        for reason, advice in words.DEAD.items()
        if plain in (reason.replace("_", " "), advice.title.lower())
    ]
    here = reverse("admin:dead-letters")
    return [{"url": f"{here}?{urlencode(query)}", "what": "dead letters", "name": name} for name, query in lists]


def _event(event: Event) -> dict[str, Any]:
    return {
        "url": reverse("admin:event", args=[event.id]),
        "what": "event",
        "name": event.public_id,
        "detail": f"{event.type} of {event.consumer}",
        "at": event.created_at,
    }
