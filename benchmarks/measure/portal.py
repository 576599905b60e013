"""The portal's part of benchmarks/measure/console.py: its pages, as the busiest consumer and as a quiet one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.test import Client

    from subscriptions.models import Consumer


def pages() -> "dict[str, tuple[Client, str]]":
    """Every page by its name: who asks for it, and its address."""
    from subscriptions.models import Consumer

    busiest, quiet = Consumer.objects.order_by("id")[0], Consumer.objects.order_by("-id")[0]
    found: dict[str, tuple[Client, str]] = {}
    for name, consumer in (("busiest", busiest), ("quiet", quiet)):
        client, paths = _inside(consumer), _addresses(consumer)
        found |= {f"portal, {name}: {page}": (client, f"/portal/{path}") for page, path in paths.items()}
    return found


def _inside(consumer: "Consumer") -> "Client":
    from django.test import Client

    from subscriptions.access import portal_visits

    client = Client(headers={"host": "localhost"})
    path = f"/portal/enter/{portal_visits.new_link(consumer, requested_by='bench', minutes=15)[0]}/"
    client.get(path)
    client.post(path, {"csrfmiddlewaretoken": client.cookies["csrftoken"].value})
    return client


def _addresses(consumer: "Consumer") -> dict[str, str]:
    """Every page, and every filter that people use."""
    from deliveries.models import Delivery, Event
    from subscriptions.models import Endpoint

    worst = Endpoint.objects.filter(consumer=consumer).order_by("id")[0].public_id
    calm = Endpoint.objects.filter(consumer=consumer).order_by("-id")[0].public_id
    dead = Delivery.objects.filter(state="dead", endpoint__consumer=consumer).order_by("-id")[0]
    producer_id = Event.objects.filter(consumer=consumer, producer_id__isnull=False).order_by("-id")[0].producer_id
    filters = {
        "": "", "dead": "state=dead", "delivered": "state=delivered", "pending": "state=pending",
        "in flight": "state=in_flight", "worst endpoint": f"endpoint={worst}",
        "worst endpoint, dead": f"endpoint={worst}&state=dead", "other endpoint": f"endpoint={calm}",
        "other endpoint, dead": f"endpoint={calm}&state=dead", "common type": "event_type=invoice.paid",
        "rare type": "event_type=rare.type", "absent type": "event_type=none", "absent type, dead":
        "event_type=none&state=dead", "common answer": "answer=503", "rare answer": "answer=418",
        "absent answer": "answer=999", "absent answer, dead": "answer=999&state=dead", "within 1 h": "within=1h",
        "within 30 d": "within=30d", "within 30 d, dead": "within=30d&state=dead",
        "event id": f"q={dead.event.public_id}", "delivery id": f"q={dead.public_id}",
        "end of an id": f"q={dead.public_id[-6:]}", "producer's id": f"q={producer_id}", "ordering key": "q=key-100",
        "words": "q=service+unavailable", "nothing": "q=nothing-of-that-name",
    }  # fmt: skip
    return {
        "endpoints": "", "new endpoint": "endpoints/new/",
        **{f"endpoint, {span}": f"endpoints/{worst}/?range={span}" for span in ("24h", "7d", "30d")},
        "other endpoint": f"endpoints/{calm}/", "change endpoint": f"endpoints/{worst}/edit/",
        "test event": f"endpoints/{worst}/test/",
        **{f"missed, {span}": f"endpoints/{worst}/missed/?within={span}" for span in ("1h", "24h", "7d", "30d")},
        **{f"deliveries, {name}".rstrip(", "): f"deliveries/?{query}" for name, query in filters.items()},
        **{f"preview, {name}".rstrip(", "): f"replays/new/?{query}" for name, query in filters.items()},
        "a delivery": f"deliveries/{dead.public_id}/", "debugger": "signatures/",
        "debugger, of a delivery": f"signatures/?delivery={dead.public_id}", "events": "events/",
        "replays": "replays/", "catch-up": "catch-up/", "keys": "keys/", "notifications": "notifications/",
    }  # fmt: skip
