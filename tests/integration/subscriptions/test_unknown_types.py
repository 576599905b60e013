"""The portal's form refuses a type that does not exist. The API takes names that are yet to be declared."""

from typing import Any

import pytest
from django.http import HttpResponseBase
from django.test import Client

from deliveries.upkeep import announce
from subscriptions import event_types
from subscriptions.models import Consumer, Endpoint, EventType
from tests.conftest import Api
from tests.portal import inside
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

URL = "https://receiver.test/hook"


@pytest.fixture
def catalogue(db: None) -> None:
    event_types.create(name="invoice.paid")
    event_types.create(name="order.item.added")


@pytest.fixture
def visitor(acme: Consumer) -> Client:
    return inside(acme)


def filled_in(*patterns: str) -> dict[str, Any]:
    chosen = {"url": URL, "event_types": patterns, "signature_scheme": "timestamped"}
    return {**chosen, "max_in_flight": "5", "timeout_seconds": "5"}


def added(visitor: Client, *patterns: str) -> HttpResponseBase:
    return visitor.post("/portal/endpoints/new/", filled_in(*patterns))


@pytest.mark.parametrize(
    ("pattern", "near"), [("invoice.payed", "invoice.paid"), ("invoices.*", "invoice.paid"), ("shipment.sent", None)]
)
def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_name(
    pattern: str, near: str | None, catalogue: None, visitor: Client
) -> None:
    answer = visitor.post("/portal/endpoints/new/", filled_in("invoice.paid", pattern))

    advice = f"Did you mean {near}?" if near else "Pick from those below."
    assert (answer.status_code, Endpoint.objects.count()) == (400, 0)
    assert f"There is no event type {pattern}. {advice}" in answer.content.decode()


@pytest.mark.parametrize(
    "pattern", ["*", "invoice.paid", "invoice.*", "order.*", "order.item.*", "endpoint.*", "endpoint.disabled"]
)
def test_what_matches_a_declared_type_or_one_of_the_platforms_own_is_taken(
    pattern: str, catalogue: None, visitor: Client
) -> None:
    assert added(visitor, pattern).status_code == 302
    assert Endpoint.objects.get().event_types == [pattern]


def test_without_a_catalogue_every_name_may_be_right(visitor: Client) -> None:
    assert added(visitor, "not.yet.declared").status_code == 302


def test_the_api_takes_a_name_that_is_yet_to_be_declared(catalogue: None, acme: Consumer, acme_api: Api) -> None:
    made = acme_api.post("consumers/acme/endpoints/", {"url": URL, "event_types": ["invoice.payed"]})
    changed = acme_api.patch(f"endpoints/{made.json()['id']}/", {"event_types": ["not.yet.declared"]})

    assert (made.status_code, changed.status_code) == (201, 200)


def test_an_endpoint_keeps_what_it_asks_for_already(catalogue: None, acme: Consumer, visitor: Client) -> None:
    endpoint = new_endpoint(acme, event_types=["gone.type"])
    page = f"/portal/endpoints/{endpoint.public_id}/edit/"

    kept = visitor.post(page, filled_in("gone.type", "invoice.*"))
    refused = visitor.post(page, filled_in("gone.type", "gone.other"))

    assert (kept.status_code, refused.status_code) == (302, 400)
    endpoint.refresh_from_db()
    assert endpoint.event_types == ["gone.type", "invoice.*"]


def test_a_type_that_was_only_emitted_is_not_known_to_consumers(
    catalogue: None, acme: Consumer, visitor: Client
) -> None:
    accept(acme, type="secret.thing")
    assert added(visitor, "secret.thing").status_code == 400


def test_an_archived_type_is_no_longer_offered(catalogue: None, visitor: Client) -> None:
    event_types.update(EventType.objects.get(name="invoice.paid"), {"archived": True})
    assert added(visitor, "invoice.paid").status_code == 400


def test_the_platforms_own_types_are_those_that_it_announces() -> None:
    assert {*announce.EVENT_TYPES.values()} == {*event_types.PLATFORM_TYPES}
