"""S13: a schema that would cost a web process its memory is refused, at the API and in what was stored before."""

from typing import Any

import pytest

from deliveries.models import Event
from subscriptions.models import Consumer, EventType, EventTypeVersion
from tests.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE: dict[str, Any] = {"properties": {"a": {"anyOf": [{"$ref": "#"}] * 3, "required": ["zz"]}}}


def nested(depth: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(depth):
        data = {"a": data}
    return data


def test_registering_a_schema_that_doubles_with_every_level_is_refused_with_its_place(producer: Api) -> None:
    body = {"name": "order.paid", "versions": [{"api_version": "1", "schema": HOSTILE}]}

    answer = producer.post("event-types/", body)

    [error] = answer.json()["errors"]
    assert (answer.status_code, error["pointer"]) == (400, "/versions/0/schema/properties/a")
    assert "Take references out of" in error["detail"]
    assert not EventType.objects.exists()


def test_changing_to_such_a_schema_is_refused_and_the_old_one_stays(producer: Api) -> None:
    versions = [{"api_version": "1", "schema": {"type": "object"}}]
    producer.post("event-types/", {"name": "order.paid", "versions": versions})

    answer = producer.patch("event-types/order.paid/", {"versions": [{"api_version": "1", "schema": HOSTILE}]})

    assert answer.status_code == 400
    assert EventTypeVersion.objects.get().schema == {"type": "object"}


def test_an_event_of_a_schema_from_before_the_rule_is_refused_and_costs_nothing(acme: Consumer, producer: Api) -> None:
    kept = EventType.objects.create(name="order.paid")
    EventTypeVersion.objects.create(event_type=kept, api_version="2026-01-01", schema=HOSTILE)
    event = {"consumer": "acme", "type": "order.paid", "api_version": "2026-01-01", "data": nested(12)}

    one = producer.post("events/", event)
    many = producer.post("events/batch/", {"events": [event, event]})

    assert (one.status_code, one.json()["code"]) == (400, "schema_refused")
    assert [each["problem"]["code"] for each in many.json()["results"]] == ["schema_refused"] * 2
    assert not Event.objects.exists()


def test_data_that_does_not_match_is_told_its_first_error(acme: Consumer, producer: Api) -> None:
    schema = {
        "properties": {"lines": {"items": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["sku"]}]}}}
    }
    producer.post("event-types/", {"name": "order.paid", "versions": [{"api_version": "1", "schema": schema}]})
    event = {"consumer": "acme", "type": "order.paid", "api_version": "1", "data": {"lines": ["a", {"sku": 1}, {}]}}

    answer = producer.post("events/", event)

    assert (answer.status_code, answer.json()["code"]) == (400, "schema_mismatch")
    assert answer.json()["errors"][0]["pointer"] == "/data/lines/2"


def test_an_event_that_would_take_long_to_check_is_refused_also_when_its_type_is_remembered(
    acme: Consumer, producer: Api
) -> None:
    schema = {"properties": {"n": {"items": {"anyOf": [{"minimum": number} for number in range(900)]}}}}
    producer.post("event-types/", {"name": "order.paid", "versions": [{"api_version": "1", "schema": schema}]})
    event = {"consumer": "acme", "type": "order.paid", "api_version": "1", "data": {"n": [1, 2]}}
    assert [producer.post("events/", event).status_code for _ in range(2)] == [202, 202]

    large = event | {"data": {"n": [0] * 30_000}}
    one, many = producer.post("events/", large), producer.post("events/batch/", {"events": [event, large]})

    assert (one.status_code, one.json()["code"]) == (400, "schema_refused")
    assert one.json()["errors"][0]["pointer"] == "/data"
    assert [each.get("problem", {}).get("code") for each in many.json()["results"]] == [None, "schema_refused"]
    assert Event.objects.count() == 3
