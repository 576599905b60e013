"""The console as its users see it: logged-in clients of each role, and dead letters made by the real walk."""

from importlib import import_module
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import URLPattern

from deliveries.models import Delivery
from subscriptions.models import Consumer, Endpoint
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

ROLES = ("Read-only", "Operators")
# Tens of thousands are made in several statements.
_AT_ONCE = 1000


def on_the_map(kind: str) -> set[str]:
    """The names of the console's pages, or of its actions."""
    urls = [url for url in admin.site.get_urls() if isinstance(url, URLPattern)]
    return {str(url.name) for url in urls if getattr(url.callback, "console_kind", "") == kind}


def logged_in(name: str, *, group: str | None = None, **fields: Any) -> Client:
    user = User.objects.create_user(name, password="not-used-here", is_staff=True, **fields)
    if group is not None:
        user.groups.add(role(group))
    client = Client()
    client.force_login(user)
    return client


def role(name: str) -> Group:
    """As the migration makes it. Tests that commit leave empty tables behind, so it may have to be made again."""
    if not Group.objects.filter(name=name).exists():
        import_module("deliveries.migrations.0001_initial").create_roles(apps, None)
    return Group.objects.get(name=name)


def dead_letters(
    consumer: Consumer, count: int, *, status_code: int = 503, **fields: Any
) -> tuple[Endpoint, list[Delivery]]:
    """An endpoint with so many dead letters: each was attempted once, and its schedule has no second attempt."""
    endpoint = new_endpoint(consumer, **{"retry_schedule": [0], "max_in_flight": count, **fields})
    for start in range(0, count, _AT_ONCE):
        accept(consumer, min(_AT_ONCE, count - start))
    claimed = claim_for(endpoint, share=count, limit=count).deliveries
    for start in range(0, count, _AT_ONCE):
        batch = claimed[start : start + _AT_ONCE]
        settle_all(*(answered(delivery, status_code, X_Trace="<i>trace</i>") for delivery in batch))
    found = list(Delivery.objects.filter(endpoint=endpoint, state="dead").order_by("-id"))
    assert len(found) == count
    return endpoint, found
