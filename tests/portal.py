"""The portal as a consumer's people see it: a browser inside, through a real link."""

from typing import Any

from django.test import Client

from subscriptions.access import portal_visits
from subscriptions.models import Consumer


def link(consumer: Consumer, *, minutes: int = 15) -> str:
    token, _ = portal_visits.new_link(consumer, requested_by="test", minutes=minutes)
    return f"/portal/enter/{token}/"


def inside(consumer: Consumer, **options: Any) -> Client:
    client, path = Client(**options), link(consumer)
    client.get(path)
    client.post(path, {"csrfmiddlewaretoken": client.cookies["csrftoken"].value})
    assert client.get("/portal/").status_code == 200
    return client
