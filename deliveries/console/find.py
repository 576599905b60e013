"""One box for every id: ours, a producer's, a consumer's uid, an ordering key. One hit goes straight to its page."""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from deliveries.browse.events import events_by_producer_id
from deliveries.browse.source import events_of_key
from deliveries.console.page import render
from deliveries.models import Event
from subscriptions import consumers, ids
from subscriptions.models import Endpoint

_LIMIT = 20


def show(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()
    hits = _hits(text) if text else []
    if len(hits) == 1:
        return HttpResponseRedirect(hits[0]["url"])
    return render(request, "find.html", title="Find", q=text, hits=hits)


def _hits(text: str) -> list[dict[str, Any]]:
    for prefix, page in (("dlv", "delivery"), ("ep", "endpoint"), ("con", "consumer"), ("rpl", "replay")):
        if ids.parse(prefix, text):
            return [{"url": reverse(f"admin:{page}", args=[text]), "what": page, "name": text}]
    if event_id := ids.parse("evt", text):
        return [{"url": reverse("admin:event", args=[event_id]), "what": "event", "name": text}]
    hits: list[dict[str, Any]] = []
    if consumer := consumers.find(text):
        hits.append({"url": reverse("admin:consumer", args=[consumer.public_id]), "what": "consumer", "name": text})
    event_ids = [event_id for event_id, _ in events_by_producer_id(text)]
    event_ids += [event_id for event_id, _ in events_of_key(text, consumer_id=None, limit=_LIMIT)]
    events = Event.objects.filter(id__in=event_ids).select_related("consumer").defer("body").order_by("-id")
    hits += [_event(event) for event in events]
    endpoints = Endpoint.objects.filter(url__icontains=text, deleted_at__isnull=True).order_by("-id")[:_LIMIT]
    hits += [
        {"url": reverse("admin:endpoint", args=[endpoint.public_id]), "what": "endpoint", "name": endpoint.url}
        for endpoint in endpoints
    ]
    return hits


def _event(event: Event) -> dict[str, Any]:
    return {
        "url": reverse("admin:event", args=[event.id]),
        "what": "event",
        "name": event.public_id,
        "detail": f"{event.type} of {event.consumer}",
        "at": event.created_at,
    }
