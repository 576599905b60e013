"""An endpoint asks for types that exist: a misspelt one is refused, by the API as in the portal."""

import pytest
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


@pytest.mark.parametrize(
    ("pattern", "near"), [("invoice.payed", "invoice.paid"), ("invoices.*", "invoice.paid"), ("shipment.sent", None)]
)
def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_name(
    pattern: str, near: str | None, catalogue: None, acme: Consumer, acme_api: Api
) -> None:
    answer = acme_api.post("consumers/acme/endpoints/", {"url": URL, "event_types": ["invoice.paid", pattern]})

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "event_type_unknown")
    assert problem["errors"][0]["pointer"] == "/event_types/1"
    assert f"Did you mean `{near}`?" in problem["detail"] if near else "Did you mean" not in problem["detail"]
    assert Endpoint.objects.count() == 0


@pytest.mark.parametrize(
    "pattern", ["*", "invoice.paid", "invoice.*", "order.*", "order.item.*", "endpoint.*", "endpoint.disabled"]
)
def test_what_matches_a_declared_type_or_one_of_the_platforms_own_is_taken(
    pattern: str, catalogue: None, acme: Consumer, acme_api: Api
) -> None:
    answer = acme_api.post("consumers/acme/endpoints/", {"url": URL, "event_types": [pattern]})
    assert (answer.status_code, answer.json().get("event_types")) == (201, [pattern])


def test_without_a_catalogue_every_name_may_be_right(acme: Consumer, acme_api: Api) -> None:
    answer = acme_api.post("consumers/acme/endpoints/", {"url": URL, "event_types": ["not.yet.declared"]})
    assert answer.status_code == 201


def test_an_endpoint_keeps_what_it_asks_for_already(catalogue: None, acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme, event_types=["gone.type"])
    path = f"endpoints/{endpoint.public_id}/"

    kept = acme_api.patch(path, {"event_types": ["gone.type", "invoice.*"]})
    refused = acme_api.patch(path, {"event_types": ["gone.type", "gone.other"]})

    assert (kept.status_code, refused.status_code) == (200, 400)
    endpoint.refresh_from_db()
    assert endpoint.event_types == ["gone.type", "invoice.*"]


def test_a_type_that_was_only_emitted_is_known_to_producers_and_not_to_consumers(
    catalogue: None, acme: Consumer, acme_api: Api, producer: Api
) -> None:
    accept(acme, type="secret.thing")
    asked = {"url": URL, "event_types": ["secret.thing"]}

    assert acme_api.post("consumers/acme/endpoints/", asked).status_code == 400
    assert producer.post("consumers/acme/endpoints/", asked).status_code == 201


def test_an_archived_type_is_no_longer_offered(catalogue: None, acme: Consumer, acme_api: Api) -> None:
    found = EventType.objects.get(name="invoice.paid")
    event_types.update(found, {"archived": True})

    answer = acme_api.post("consumers/acme/endpoints/", {"url": URL, "event_types": ["invoice.paid"]})
    assert answer.status_code == 400


def test_the_portals_form_refuses_the_same(catalogue: None, acme: Consumer) -> None:
    visitor: Client = inside(acme)
    answer = visitor.post("/portal/endpoints/new/", {"url": URL, "event_types": "invoice.payed"})
    assert (answer.status_code, Endpoint.objects.count()) == (400, 0)


def test_the_platforms_own_types_are_those_that_it_announces() -> None:
    assert {*announce.EVENT_TYPES.values()} == {*event_types.PLATFORM_TYPES}
