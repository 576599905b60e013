"""Events in and what they hang on: emitting, the catalogue, consumers, limits, and reading it all back."""

import base64
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import orjson
import psycopg
import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from deliveries.models import Attempt, Delivery, Event, OrderingKey
from deliveries.pump import database
from subscriptions import consumers, endpoints, event_types, keys
from subscriptions.limits import rate_limit
from subscriptions.models import ApiKey, Consumer, Endpoint, EventType, EventTypeVersion, Role
from tests.conftest import Api, PumpRunner
from tests.ledger import ledger
from tests.local import wait_until
from tests.receiver import Receiver
from tests.servers import needs_session

pytestmark = pytest.mark.django_db
# For what other connections must see. (Whatever asks for the pump is committed as well.)
committed = pytest.mark.django_db(transaction=True)

EVENT: dict[str, Any] = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}
URL = "http://127.0.0.1:9/hook"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(autouse=True)
def _an_empty_broker(redis_client: "redis.Redis") -> None: ...


def walk(api: Api, path: str, **query: Any) -> list[list[Any]]:
    """Every page of a list, by following `next`."""
    pages: list[list[Any]] = []
    while True:
        answer = api.get(path, **query).json()
        pages.append(answer["results"])
        if answer["next"] is None:
            return pages
        query = dict(parse_qsl(urlsplit(answer["next"]).query))


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """So many calls from eight threads, each with a connection of its own."""

    def closing(number: int) -> Any:
        try:
            return call(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(closing, range(count)))


# ── Emitting one ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_with_nothing_but_what_is_needed(producer: Api, acme: Consumer) -> None:
    before = timezone.now()

    answer = producer.post("events/", EVENT)

    assert answer.status_code == 202
    shown = answer.json()
    assert shown == {
        "id": Event.objects.get().public_id,
        "consumer": "acme",
        "type": "invoice.paid",
        "api_version": "1",
        "created_at": shown["created_at"],
        "occurred_at": None,
        "ordering_key": None,
        "sequence": None,
        "data": {"amount": 4999},
        "delivery_count": 0,
    }
    assert shown["id"].startswith("evt_")
    assert before <= datetime.fromisoformat(shown["created_at"]) <= timezone.now()


def test_an_event_with_everything(producer: Api, acme: Consumer) -> None:
    given = {
        "id": "inv_17:paid",
        "api_version": "2026-01-31",
        "occurred_at": "2026-01-31T14:00:00.25+02:00",
        "ordering_key": "invoice 17",
    }

    shown = producer.post("events/", {**EVENT, **given}).json()

    assert {name: shown[name] for name in given} == {**given, "occurred_at": "2026-01-31T12:00:00.250000Z"}
    assert shown["sequence"] == 1
    assert orjson.loads(Event.objects.get().body or b"") == {
        "id": "inv_17:paid",
        "type": "invoice.paid",
        "created_at": shown["created_at"],
        "timestamp": "2026-01-31T12:00:00.250000Z",
        "api_version": "2026-01-31",
        "data": {"amount": 4999},
        "ordering_key": "invoice 17",
        "sequence": 1,
    }


@pytest.mark.parametrize("offset", ["+23:59", "-23:59", "+16:00", "+00:00:00.5"])
def test_a_time_in_any_zone_is_kept_as_the_moment_it_is(offset: str, producer: Api, acme: Consumer) -> None:
    occurred_at = f"2026-01-31T12:00:00{offset}"

    shown = producer.post("events/", {**EVENT, "occurred_at": occurred_at}).json()

    assert datetime.fromisoformat(shown["occurred_at"]) == datetime.fromisoformat(occurred_at)


def test_an_event_without_a_matching_endpoint_is_stored_and_owed_to_nobody(producer: Api, acme: Consumer) -> None:
    endpoints.create(consumer=acme, url=URL, event_types=["order.*"])

    assert producer.post("events/", EVENT).json()["delivery_count"] == 0

    assert (Event.objects.count(), Delivery.objects.count()) == (1, 0)


@pytest.mark.parametrize(
    ("patterns", "name", "wanted"),
    [
        (["*"], "a.b.c", True),
        (["a.*"], "a.b.c", True),
        (["a.b.*"], "a.b.c", True),
        (["a.b.c"], "a.b.c", True),
        (["x", "a.b.c"], "a.b.c", True),
        (["a.b"], "a.b.c", False),
        (["a.b.c.*"], "a.b.c", False),
        (["b.*"], "a.b.c", False),
        (["a"], "a.b.c", False),
        (["a.*"], "a", False),
        (["a.*"], "ab.c", False),
        (["A.*"], "a.b", False),
    ],
)
def test_an_endpoint_gets_what_its_patterns_take_in(
    patterns: list[str], name: str, wanted: bool, producer: Api, acme: Consumer
) -> None:
    endpoints.create(consumer=acme, url=URL, event_types=patterns)

    assert producer.post("events/", {**EVENT, "type": name}).json()["delivery_count"] == int(wanted)
    assert Delivery.objects.count() == int(wanted)


def test_an_endpoint_with_two_matching_patterns_gets_one_delivery(producer: Api, acme: Consumer) -> None:
    endpoints.create(consumer=acme, url=URL, event_types=["*", "invoice.*", "invoice.paid"])

    assert producer.post("events/", EVENT).json()["delivery_count"] == 1


def test_only_living_endpoints_of_the_events_own_consumer_are_owed_it(producer: Api, acme: Consumer) -> None:
    living, _ = endpoints.create(consumer=acme, url=URL)
    deleted, _ = endpoints.create(consumer=acme, url=URL)
    endpoints.create(consumer=consumers.create(uid="globex"), url=URL)
    producer.delete(f"endpoints/{deleted.public_id}/")

    producer.post("events/", EVENT)

    assert Delivery.objects.get().endpoint_id == living.id


def test_a_consumer_is_named_by_uid_and_by_id_interchangeably(producer: Api, acme: Consumer) -> None:
    by_uid = producer.post("events/", {**EVENT, "id": "a"})
    by_id = producer.post("events/", {**EVENT, "id": "b", "consumer": acme.public_id})

    assert [by_uid.status_code, by_id.status_code] == [202, 202]
    for name in ("acme", acme.public_id):
        assert producer.get(f"consumers/{name}/").json()["id"] == acme.public_id
        assert len(producer.get("events/", consumer=name).json()["results"]) == 2
        assert producer.get(f"consumers/{name}/endpoints/").status_code == 200


def test_an_unknown_consumer_is_refused(producer: Api, acme: Consumer) -> None:
    before = ledger()

    answer = producer.post("events/", {**EVENT, "consumer": "nobody"})

    assert (answer.status_code, answer.json()["code"]) == (404, "consumer_not_found")
    assert answer.json()["errors"][0]["pointer"] == "/consumer"
    assert ledger() == before


def test_a_deleted_consumer_is_unknown(producer: Api, acme: Consumer) -> None:
    producer.delete("consumers/acme/")

    answers = [producer.post("events/", {**EVENT, "consumer": name}) for name in ("acme", acme.public_id)]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert Event.objects.count() == 0


def test_a_traceparent_is_kept_and_sent(producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    producer.post("events/", EVENT, headers={"traceparent": TRACEPARENT})

    pump.run()

    [received] = receiver.received
    assert received.headers["traceparent"] == TRACEPARENT


@pytest.mark.parametrize("broken", ["", "nonsense", TRACEPARENT.upper(), TRACEPARENT + "-00", TRACEPARENT[:-1] + "g"])
def test_a_broken_traceparent_is_left_out(broken: str, producer: Api, acme: Consumer) -> None:
    assert producer.post("events/", EVENT, headers={"traceparent": broken}).status_code == 202

    assert Event.objects.get().traceparent is None


def test_every_path_works_with_and_without_the_trailing_slash(producer: Api, acme: Consumer) -> None:
    event_id = producer.post("events", EVENT).json()["id"]
    producer.post("events/", EVENT)

    assert producer.post("events/batch", {"events": [EVENT]}).status_code == 202
    for path in ("events", f"events/{event_id}", f"events/{event_id}/deliveries", "consumers/acme", "event-types"):
        assert producer.get(path).json() == producer.get(f"{path}/").json()
    assert Event.objects.count() == 3


# ── The producer's own id ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_producers_own_id_is_the_events_id_everywhere(
    producer: Api, acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)

    shown = producer.post("events/", {**EVENT, "id": "inv_17"}).json()
    pump.run()

    assert shown["id"] == "inv_17"
    assert producer.get("events/inv_17/").json() == shown
    assert producer.get("events/inv_17/deliveries/").json()["results"][0]["event"] == "inv_17"
    [received] = receiver.received
    assert received.headers["Webhook-Id"] == "inv_17"
    assert orjson.loads(received.body)["id"] == "inv_17"


def test_the_same_id_and_content_is_the_same_event(producer: Api, acme: Consumer) -> None:
    endpoints.create(consumer=acme, url=URL)
    first = producer.post("events/", {**EVENT, "id": "inv_17"})
    before = ledger()

    again = producer.post("events/", {**EVENT, "id": "inv_17"})

    assert (again.status_code, again.content) == (202, first.content)
    assert ledger() == before


@pytest.mark.parametrize(
    "change",
    [{"data": {"amount": 1}}, {"type": "invoice.voided"}, {"api_version": "2"}, {"ordering_key": "k"}],
    ids=lambda change: next(iter(change)),
)
def test_the_same_id_for_something_else_is_refused(change: dict[str, Any], producer: Api, acme: Consumer) -> None:
    producer.post("events/", {**EVENT, "id": "inv_17"})
    before = ledger()

    answer = producer.post("events/", {**EVENT, "id": "inv_17", **change})

    assert (answer.status_code, answer.json()["code"]) == (409, "event_id_reused")
    assert ledger() == before


@pytest.mark.parametrize(("first", "second"), [("1", "true"), ("false", "0"), ("1", "1.0"), ("0.0", "-0.0")])
def test_an_id_is_used_again_also_where_python_sees_no_difference(
    first: str, second: str, producer: Api, acme: Consumer
) -> None:
    events = [
        {**EVENT, "id": "inv_17", "data": orjson.loads(f'{{"a": [{value}], "b": ""}}')} for value in (first, second)
    ]
    assert producer.post("events/", events[0]).status_code == 202

    refused = producer.post("events/", events[1])
    again = producer.post("events/", {**events[0], "data": dict(reversed(events[0]["data"].items()))})

    assert (refused.status_code, refused.json()["code"]) == (409, "event_id_reused")
    assert (again.status_code, Event.objects.count()) == (202, 1)


def test_two_consumers_may_have_events_of_the_same_id(producer: Api, acme: Consumer) -> None:
    consumers.create(uid="globex")
    for uid in ("acme", "globex"):
        assert producer.post("events/", {**EVENT, "consumer": uid, "id": "inv_17"}).status_code == 202

    assert producer.get("events/inv_17/").json()["code"] == "ambiguous_id"
    assert producer.get("events/inv_17/", consumer="globex").json()["consumer"] == "globex"


@committed
def test_eight_threads_with_the_same_id_make_one_event(producer: Api, acme: Consumer) -> None:
    endpoints.create(consumer=acme, url=URL)

    answers = at_once(24, lambda number: producer.post("events/", {**EVENT, "id": "inv_17", "ordering_key": "k"}))

    assert Counter(answer.status_code for answer in answers) == {202: 24}
    assert len({answer.content for answer in answers}) == 1
    assert (Event.objects.count(), Delivery.objects.count()) == (1, 1)
    assert OrderingKey.objects.get().last_sequence == 1


# ── Sequences ────────────────────────────────────────────────────────────────────────────────────────────────────────


def sequences(**query: Any) -> list[int | None]:
    return list(Event.objects.filter(**query).order_by("sequence").values_list("sequence", flat=True))


def test_an_ordering_key_counts_per_consumer_and_key(producer: Api, acme: Consumer) -> None:
    consumers.create(uid="globex")

    given = [
        producer.post("events/", {**EVENT, "consumer": consumer, "ordering_key": key}).json()["sequence"]
        for consumer, key in [("acme", "a"), ("acme", "a"), ("acme", "b"), ("globex", "a"), ("acme", "a")]
    ]

    assert given == [1, 2, 1, 1, 3]


@committed
def test_sequences_have_no_gaps_with_eight_threads_emitting(producer: Api, acme: Consumer) -> None:
    answers = at_once(64, lambda number: producer.post("events/", {**EVENT, "ordering_key": f"key-{number % 2}"}))

    assert {answer.status_code for answer in answers} == {202}
    for key in ("key-0", "key-1"):
        assert sequences(ordering_key=key) == list(range(1, 33))


def test_what_is_refused_or_a_duplicate_uses_up_no_number(producer: Api, acme: Consumer, settings: Settings) -> None:
    settings.UNKNOWN_EVENT_TYPES = "refuse"
    event_types.create(name="invoice.paid")
    keyed = {**EVENT, "ordering_key": "k"}

    answers = [
        producer.post("events/", {**keyed, "id": "a"}),
        producer.post("events/", {**keyed, "id": "a"}),
        producer.post("events/", {**keyed, "id": "a", "data": {}}),
        producer.post("events/", {**keyed, "type": "unknown"}),
        producer.post("events/", {**keyed, "consumer": "nobody"}),
        producer.post("events/", {**keyed, "id": "b"}),
    ]

    assert [answer.status_code for answer in answers] == [202, 202, 409, 400, 404, 202]
    assert answers[-1].json()["sequence"] == 2
    assert sequences(ordering_key="k") == [1, 2]


def test_a_batch_numbers_its_events_in_order(producer: Api, acme: Consumer) -> None:
    batch = [{**EVENT, "ordering_key": key, "data": {"n": number}} for number, key in enumerate("abaab")]
    producer.post("events/", {**EVENT, "ordering_key": "a"})

    results = producer.post("events/batch/", {"events": batch}).json()["results"]

    assert [result["event"]["sequence"] for result in results] == [2, 1, 3, 4, 2]


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def mixed_batch() -> list[dict[str, Any]]:
    """A thousand: every fifth a repeat of one accepted before, every fifth refused, the rest new."""
    return [
        {**EVENT, "id": f"old-{number}"}
        if number % 5 == 1
        else {**EVENT, "consumer": "nobody"}
        if number % 5 == 3
        else {**EVENT, "id": f"new-{number}", "data": {"n": number}}
        for number in range(1000)
    ]


def test_a_batch_of_a_thousand_answers_each_by_itself_and_in_order(producer: Api, acme: Consumer) -> None:
    endpoints.create(consumer=acme, url=URL)
    batch = mixed_batch()
    producer.post("events/batch/", {"events": [item for item in batch if item.get("id", "").startswith("old")]})
    assert Event.objects.count() == 200

    answer = producer.post("events/batch/", {"events": batch})

    assert answer.status_code == 202
    results = answer.json()["results"]
    statuses = ["accepted", "duplicate", "accepted", "refused", "accepted"] * 200
    assert [result["status"] for result in results] == statuses
    assert [result["event"]["id"] for result in results if "event" in result] == [
        item["id"] for item in batch if "id" in item
    ]
    assert {result["problem"]["code"] for result in results if "problem" in result} == {"consumer_not_found"}
    assert (Event.objects.count(), Delivery.objects.count()) == (800, 800)


def test_repeats_within_a_batch_are_duplicates_of_the_first(producer: Api, acme: Consumer) -> None:
    batch = [
        {**EVENT, "id": "a"},
        {**EVENT, "id": "a"},
        {**EVENT, "id": "a", "data": {}},
        # The same consumer by its other name.
        {**EVENT, "id": "a", "consumer": acme.public_id},
    ]

    results = producer.post("events/batch/", {"events": batch}).json()["results"]

    assert [result["status"] for result in results] == ["accepted", "duplicate", "refused", "duplicate"]
    assert results[2]["problem"]["code"] == "event_id_reused"
    assert Event.objects.count() == 1


def test_an_event_too_large_for_its_batch_is_refused_by_itself(producer: Api, acme: Consumer) -> None:
    large = {**EVENT, "data": {"text": "x" * 300_000}}

    results = producer.post("events/batch/", {"events": [large, EVENT]}).json()["results"]

    assert [result["status"] for result in results] == ["refused", "accepted"]
    assert (results[0]["problem"]["status"], results[0]["problem"]["code"]) == (413, "payload_too_large")
    assert Event.objects.count() == 1


def test_a_batch_of_refusals_writes_nothing(producer: Api, acme: Consumer) -> None:
    before = ledger()

    answer = producer.post("events/batch/", {"events": [{**EVENT, "consumer": "nobody"}, {**EVENT, "data": 5}]})

    assert [result["status"] for result in answer.json()["results"]] == ["refused", "refused"]
    assert ledger() == before


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "all-bad"}], ids=["without a key", "with a key"])
def test_a_batch_of_nothing_well_formed_is_refused_item_by_item(
    producer: Api, acme: Consumer, headers: dict[str, str]
) -> None:
    """Regression: it was answered with 500, and so were the batches of others that shared its statement."""
    answer = producer.post("events/batch/", {"events": [5, {"nonsense": 1}]}, headers=headers)

    assert answer.status_code == 202
    assert [result["status"] for result in answer.json()["results"]] == ["refused", "refused"]


def test_nesting_that_fits_into_a_request_fits_into_every_answer(producer: Api, acme: Consumer) -> None:
    deepest = next(depth for depth in range(254, 0, -1) if _accepts(producer, depth))

    batch = producer.post("events/batch/", {"events": [{**EVENT, "data": _nested(deepest - 2)}]})

    assert deepest > 200
    assert batch.status_code == 202
    assert producer.get("events/").status_code == 200
    assert producer.get("consumers/acme/feed/").status_code == 200


def _accepts(producer: Api, depth: int) -> bool:
    return bool(producer.post("events/", {**EVENT, "data": _nested(depth)}).status_code == 202)


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


# ── Statements ───────────────────────────────────────────────────────────────────────────────────────────────────────


@committed
@pytest.mark.parametrize(
    ("fields", "keyed", "statements", "of_batch"),
    [
        # Event and deliveries, with a look at the key, the consumer and the type; a batch between begin and commit.
        ({}, False, 1, 3),
        # The look for an answer, begin, event and deliveries, the stored answer, commit.
        ({}, True, 5, 5),
        # … and the sequence.
        ({"ordering_key": "k"}, True, 6, 6),
        # … and the look for an event of this id.
        ({"ordering_key": "k", "id": "a"}, True, 7, 7),
    ],
    ids=["plain", "once", "once and in order", "once and in order under its own id"],
)
def test_one_event_and_a_thousand_take_the_same_number_of_statements(
    fields: dict[str, Any], keyed: bool, statements: int, of_batch: int, producer: Api, acme: Consumer
) -> None:
    for number in range(3):
        endpoints.create(consumer=acme, url=f"{URL}/{number}")
    for _ in range(3):  # until the process remembers what it met
        producer.post("events/", EVENT)
    thousand = [{**EVENT, **{name: f"{value}{number}" for name, value in fields.items()}} for number in range(1, 1001)]

    with CaptureQueriesContext(connection) as single:
        one = producer.post("events/", {**EVENT, **fields}, headers={"Idempotency-Key": "one"} if keyed else {})
    with CaptureQueriesContext(connection) as batch:
        many = producer.post(
            "events/batch/", {"events": thousand}, headers={"Idempotency-Key": "many"} if keyed else {}
        )

    assert [one.status_code, many.status_code] == [202, 202]
    assert (len(single), len(batch)) == (statements, of_batch)
    assert (Event.objects.count(), Delivery.objects.count()) == (1004, 3012)


# ── The catalogue ────────────────────────────────────────────────────────────────────────────────────────────────────

SCHEMA = {
    "type": "object",
    "required": ["lines"],
    "properties": {"lines": {"type": "array", "items": {"properties": {"a/b~c": {"type": "integer"}}}}},
}


def test_an_unknown_type_is_registered_on_first_use(producer: Api, acme: Consumer) -> None:
    producer.post("events/", EVENT)

    registered = producer.get("event-types/invoice.paid/").json()
    assert (registered["name"], registered["versions"], registered["archived"]) == ("invoice.paid", [], False)


def test_an_unknown_type_is_refused_where_the_deployment_says_so(
    producer: Api, acme: Consumer, settings: Settings
) -> None:
    settings.UNKNOWN_EVENT_TYPES = "refuse"
    before = ledger()

    answer = producer.post("events/", EVENT)

    assert (answer.status_code, answer.json()["code"]) == (400, "event_type_unknown")
    assert answer.json()["errors"][0]["pointer"] == "/type"
    assert ledger() == before


def test_an_archived_type_is_refused_and_comes_back_when_it_is_taken_out(producer: Api, acme: Consumer) -> None:
    producer.post("event-types/", {"name": "invoice.paid"})
    producer.patch("event-types/invoice.paid/", {"archived": True})
    before = ledger()

    refused = producer.post("events/", EVENT)

    assert (refused.status_code, refused.json()["code"]) == (400, "event_type_archived")
    assert ledger() == before
    producer.patch("event-types/invoice.paid/", {"archived": False})
    assert producer.post("events/", EVENT).status_code == 202


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({}, "/data"),
        ({"lines": 5}, "/data/lines"),
        ({"lines": [{}, {"a/b~c": "x"}]}, "/data/lines/1/a~1b~0c"),
    ],
)
def test_data_that_does_not_match_its_schema_is_refused_with_the_place(
    data: dict[str, Any], pointer: str, producer: Api, acme: Consumer
) -> None:
    event_types.create(name="invoice.paid", versions=[{"api_version": "1", "schema": SCHEMA}])
    before = ledger()

    answer = producer.post("events/", {**EVENT, "data": data})

    assert (answer.status_code, answer.json()["code"]) == (400, "schema_mismatch")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert ledger() == before


def test_each_version_has_its_own_schema_and_a_change_counts_at_once(producer: Api, acme: Consumer) -> None:
    event_types.create(name="invoice.paid", versions=[{"api_version": "1", "schema": SCHEMA}])
    bad = {**EVENT, "data": {}}

    assert producer.post("events/", bad).status_code == 400
    assert producer.post("events/", {**bad, "api_version": "2"}).status_code == 202
    producer.patch("event-types/invoice.paid/", {"versions": [{"api_version": "1", "schema": {"type": "object"}}]})
    assert producer.post("events/", bad).status_code == 202


def test_an_event_type_is_made_read_changed_and_deleted(producer: Api, acme_api: Api) -> None:
    version = {"api_version": "1", "schema": SCHEMA, "example": {"lines": []}}
    made = producer.post("event-types/", {"name": "order.made", "description": "Made.", "versions": [version]})
    changed = producer.patch("event-types/order.made/", {"description": "Changed.", "versions": [{"api_version": "2"}]})

    assert made.status_code == 201
    assert (made.json()["description"], made.json()["versions"]) == ("Made.", [version])
    assert changed.json()["description"] == "Changed."
    assert changed.json()["versions"] == [version, {"api_version": "2", "schema": None, "example": None}]
    # Everybody may read the catalogue.
    assert acme_api.get("event-types/order.made/").json() == changed.json()
    assert producer.delete("event-types/order.made/").status_code == 204
    assert producer.get("event-types/order.made/").status_code == 404
    assert (EventType.objects.count(), EventTypeVersion.objects.count()) == (0, 0)


def test_a_name_that_is_taken_is_refused(producer: Api, db: None) -> None:
    producer.post("event-types/", {"name": "order.made", "description": "First."})
    before = ledger()

    answer = producer.post("event-types/", {"name": "order.made"})

    assert (answer.status_code, answer.json()["code"]) == (409, "event_type_exists")
    assert ledger() == before


def test_a_type_in_use_is_archived_instead_of_deleted(producer: Api, acme: Consumer) -> None:
    producer.post("event-types/", {"name": "invoice.paid"})
    producer.post("events/", EVENT)
    producer.post("event-types/", {"name": "order.made"})
    endpoints.create(consumer=acme, url=URL, event_types=["order.made"])
    producer.post("event-types/", {"name": "never.used"})

    for name in ("invoice.paid", "order.made", "never.used"):
        assert producer.delete(f"event-types/{name}/").status_code == 204

    assert producer.get("event-types/").json()["results"] == []
    archived = producer.get("event-types/", archived="true").json()["results"]
    assert [(found["name"], found["archived"]) for found in archived] == [("invoice.paid", True), ("order.made", True)]


# ── Consumers and their endpoints ────────────────────────────────────────────────────────────────────────────────────


def test_a_consumer_is_made_read_changed_and_deleted(producer: Api, db: None) -> None:
    made = producer.post("consumers/", {"uid": "acme", "name": "Acme", "metadata": {"plan": "gold"}})
    changed = producer.patch("consumers/acme/", {"name": "Acme Inc", "contact_email": "ops@acme.example"})

    assert made.status_code == 201
    assert changed.json() == {**made.json(), "name": "Acme Inc", "contact_email": "ops@acme.example"}
    assert producer.get("consumers/acme/").json() == changed.json()
    assert producer.delete("consumers/acme/").status_code == 204
    assert producer.get("consumers/acme/").status_code == 404
    assert producer.get("consumers/").json()["results"] == []


def test_a_uid_is_free_again_once_its_consumer_is_deleted(producer: Api, acme: Consumer) -> None:
    taken = producer.post("consumers/", {"uid": "acme"})
    producer.delete("consumers/acme/")
    free = producer.post("consumers/", {"uid": "acme"})

    assert (taken.status_code, taken.json()["code"], free.status_code) == (409, "uid_taken", 201)
    assert free.json()["id"] != acme.public_id


def test_a_uid_that_is_taken_is_refused_to_a_change_too(producer: Api, acme: Consumer) -> None:
    consumers.create(uid="globex")
    before = ledger()

    answer = producer.patch("consumers/globex/", {"uid": "acme", "name": "Acme"})

    assert (answer.status_code, answer.json()["code"]) == (409, "uid_taken")
    assert ledger() == before


def test_deleting_a_consumer_ends_its_keys_and_its_endpoints(producer: Api, acme: Consumer, acme_api: Api) -> None:
    endpoint, _ = endpoints.create(consumer=acme, url=URL)

    producer.delete("consumers/acme/")

    assert acme_api.get("events/").status_code == 401
    assert producer.get(f"endpoints/{endpoint.public_id}/").status_code == 404


@committed
def test_a_consumer_may_have_so_many_endpoints_and_no_more(acme_api: Api, acme: Consumer, settings: Settings) -> None:
    settings.MAX_ENDPOINTS_PER_CONSUMER = 3

    answers = at_once(8, lambda number: acme_api.post("consumers/acme/endpoints/", {"url": URL}))

    assert Counter(answer.status_code for answer in answers) == {201: 3, 409: 5}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"too_many_endpoints"}
    assert Endpoint.objects.count() == 3
    acme_api.delete(f"endpoints/{Endpoint.objects.all()[0].public_id}/")
    assert acme_api.post("consumers/acme/endpoints/", {"url": URL}).status_code == 201


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_s10_a_key_works_from_its_issue_until_its_revocation(producer: Api, acme: Consumer) -> None:
    issued = producer.post("consumers/acme/keys/", {"name": "laptop"}).json()
    holder = Api(issued["key"])

    assert holder.get("consumers/acme/").status_code == 200
    assert producer.delete(f"consumers/acme/keys/{issued['id']}/").status_code == 204
    assert holder.get("consumers/acme/").status_code == 401
    # Revoked once is revoked for good.
    assert producer.delete(f"consumers/acme/keys/{issued['id']}/").status_code == 404


def test_s10_a_list_of_keys_tells_them_apart_and_gives_none_away(producer: Api, acme: Consumer) -> None:
    issued = producer.post("consumers/acme/keys/", {"name": "laptop", "expires_at": "2999-01-01T00:00:00Z"}).json()
    Api(issued["key"]).get("events/")

    answer = producer.get("consumers/acme/keys/")

    [shown] = answer.json()["results"]
    assert (shown["name"], shown["hint"], shown["role"]) == ("laptop", issued["key"][-4:], "consumer")
    assert (issued["last_used_at"], shown["last_used_at"] is not None) == (None, True)
    assert (shown["expires_at"], shown["revoked_at"]) == ("2999-01-01T00:00:00Z", None)
    assert issued["key"] not in answer.content.decode()


@committed
def test_a_consumer_that_is_deleted_while_it_is_changed_leaves_its_uid_free(producer: Api, acme: Consumer) -> None:
    """The change waits for the deletion, and must not give the deleted one its uid back."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(database.conninfo()) as holder:
        holder.execute("UPDATE subscriptions_consumer SET uid = NULL, deleted_at = now() WHERE id = %s", [acme.id])
        changing = pool.submit(closing, lambda: producer.patch("consumers/acme/", {"uid": "acme", "name": "New"}))
        wait_until(lambda: waits_for_a_lock(holder), seconds=20)
        holder.commit()
        answer = changing.result(20)

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert producer.post("consumers/", {"uid": "acme"}).status_code == 201


def closing(call: Callable[[], Any]) -> Any:
    try:
        return call()
    finally:
        connection.close()


def waits_for_a_lock(holder: "psycopg.Connection") -> bool:
    return bool(holder.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall())


@needs_session
@committed
def test_a_database_that_takes_no_writes_is_a_503_that_says_so(producer: Api, acme: Consumer) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    try:
        answer = producer.post("consumers/", {"uid": "other"})
    finally:
        connection.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")


# ── The rate limit ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_asks_too_fast_is_told_when_to_come_back(acme: Consumer, settings: Settings) -> None:
    settings.API_RATE_PER_SECOND, settings.API_RATE_BURST = 1, 2
    other = Api(keys.issue(role=Role.PRODUCER)[1])

    answers, stored = asked_within_a_second(3)

    assert [answer.status_code for answer in answers] == [202, 202, 429]
    shown = [(answer["RateLimit-Limit"], answer["RateLimit-Remaining"]) for answer in answers]
    assert shown == [("2", "1"), ("2", "0"), ("2", "0")]
    assert [answer["RateLimit-Reset"] for answer in answers] == ["1", "2", "2"]
    refused = answers[2]
    assert (refused.json()["code"], refused["Retry-After"]) == ("rate_limited", "1")
    assert refused["Content-Type"] == "application/problem+json"
    assert stored == 2
    # Another key has a limit of its own.
    assert other.post("events/", EVENT).status_code == 202


def asked_within_a_second(count: int) -> tuple[list[Any], int]:
    """So many emits with a new key, and how many events they stored. A machine that was busy meanwhile tries again."""
    for _ in range(20):
        api, before, begun = Api(keys.issue(role=Role.PRODUCER)[1]), Event.objects.count(), time.monotonic()
        answers = [api.post("events/", EVENT) for _ in range(count)]
        if time.monotonic() - begun < 0.9:
            return answers, Event.objects.count() - before
    raise AssertionError(f"never {count} requests within a second")


def test_what_callers_of_one_moment_take_ahead_is_lost_to_nobody(
    settings: Settings, patient_redis: "redis.Redis"
) -> None:
    """Whoever finds nothing at hand takes twenty from Redis; those of the others come on top."""
    settings.API_RATE_PER_SECOND, settings.API_RATE_BURST = 2000, 1000
    for attempt in range(20):  # a machine that was busy for a second tries again: what is at hand is forgone then
        key, start, begun = f"somebody-{attempt}", Barrier(8), time.monotonic()
        patient_redis.config_resetstat()

        def ask(_: int, key: str = key, start: Barrier = start) -> Any:
            start.wait(10)
            return rate_limit.take(key)

        with ThreadPoolExecutor(8) as pool:
            assert all(answer.retry_after_seconds is None for answer in pool.map(ask, range(8)))
        times_asked = patient_redis.info("commandstats")["cmdstat_eval"]["calls"]
        if time.monotonic() - begun < 0.9 and times_asked > 1:
            assert rate_limit._held[key].count == 20 * times_asked - 8
            return
    raise AssertionError("no two callers ever asked at the same moment")


def test_f_a_clock_that_is_set_back_refuses_nobody_for_an_hour(
    settings: Settings, patient_redis: "redis.Redis"
) -> None:
    settings.API_RATE_PER_SECOND, settings.API_RATE_BURST = 1, 2
    seconds, microseconds = patient_redis.time()
    patient_redis.set("webhooks:rate:somebody", (seconds + 3600) * 1_000_000 + microseconds)

    answer = rate_limit.take("somebody")

    assert answer is not None
    assert answer.retry_after_seconds == 1


def test_without_a_limit_no_header_speaks_of_one(producer: Api, acme: Consumer, settings: Settings) -> None:
    settings.API_RATE_PER_SECOND = 0

    answer = producer.post("events/", EVENT)

    assert answer.status_code == 202
    assert [name for name in answer.headers if name.startswith(("RateLimit", "Retry"))] == []


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["events/", "deliveries/", "events/e-0/deliveries/", "endpoints/{endpoint}/deliveries/"]
)
def test_walking_the_pages_shows_every_row_once_and_newest_first(path: str, producer: Api, acme: Consumer) -> None:
    made = [endpoints.create(consumer=acme, url=f"{URL}/{number}")[0] for number in range(7)]
    producer.post("events/batch/", {"events": [{**EVENT, "id": f"e-{number}"} for number in range(23)]})
    expected = {"events/": 23, "deliveries/": 161, "events/e-0/deliveries/": 7}.get(path, 23)

    pages = walk(producer, path.format(endpoint=made[0].public_id), limit=5)

    ids = [row["id"] for page in pages for row in page]
    assert len(ids) == len(set(ids)) == expected
    assert [len(page) for page in pages] == [5] * (expected // 5) + [expected % 5]
    if path == "events/":
        assert ids == [f"e-{number}" for number in reversed(range(23))]


def test_walking_the_other_lists_shows_every_row_once(producer: Api, acme: Consumer) -> None:
    for number in range(7):
        consumers.create(uid=f"c-{number}")
        event_types.create(name=f"t{number}")
        keys.issue(role=Role.CONSUMER, consumer=acme)
        endpoints.create(consumer=acme, url=URL)

    counts = {
        path: [len(page) for page in walk(producer, path, limit=3)]
        for path in ("consumers/", "event-types/", "consumers/acme/keys/", "consumers/acme/endpoints/")
    }

    # A last page may be exactly full; then nothing follows it.
    assert counts == {
        "consumers/": [3, 3, 2],
        "event-types/": [3, 3, 1],
        "consumers/acme/keys/": [3, 3, 1],
        "consumers/acme/endpoints/": [3, 3, 1],
    }
    assert ApiKey.objects.filter(consumer=acme).count() == 7


def test_a_row_that_comes_while_pages_are_walked_moves_no_other(producer: Api, acme: Consumer) -> None:
    for number in range(4):
        producer.post("events/", {**EVENT, "id": f"e-{number}"})
    first = producer.get("events/", limit=2).json()

    producer.post("events/", {**EVENT, "id": "late"})
    second = producer.get("events/", **dict(parse_qsl(urlsplit(first["next"]).query))).json()

    assert [row["id"] for row in second["results"]] == ["e-1", "e-0"]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, range(12)),
        ({"consumer": "acme"}, range(0, 12, 2)),
        ({"consumer": "acme", "type": "order.made"}, [0, 6]),
        ({"type": "order.made"}, [0, 3, 6, 9]),
        ({"ordering_key": "k"}, [0, 1, 4, 5, 8, 9]),
        ({"consumer": "acme", "ordering_key": "k"}, [0, 4, 8]),
        ({"consumer": "acme", "ordering_key": "k", "type": "order.made"}, [0]),
        ({"consumer": "globex", "since": "2020-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}, range(1, 12, 2)),
        ({"state": "pending"}, range(0, 12, 2)),
        ({"consumer": "acme", "state": "pending"}, range(0, 12, 2)),
        ({"consumer": "globex", "state": "pending"}, []),
        ({"consumer": "acme", "state": "dead"}, []),
    ],
)
def test_every_filter_of_events_is_walked_newest_first_each_event_once(
    producer: Api, acme: Consumer, query: dict[str, str], expected: Sequence[int]
) -> None:
    consumers.create(uid="globex")
    endpoints.create(consumer=acme, url=URL)
    deleted = consumers.create(uid="deleted")
    producer.post("events/", {**EVENT, "consumer": "deleted"})
    consumers.delete(deleted)
    for number in range(12):
        event = {**EVENT, "id": f"e-{number}", "consumer": "globex" if number % 2 else "acme"}
        event |= {"type": "invoice.paid" if number % 3 else "order.made"}
        event |= {} if number % 4 > 1 else {"ordering_key": "k"}
        assert producer.post("events/", event).status_code == 202

    found = [row["id"] for page in walk(producer, "events/", limit=2, **query) for row in page]

    assert found == [f"e-{number}" for number in sorted(expected, reverse=True)]


@pytest.mark.parametrize(
    "cursor", [["1"], ["x", "0" * 32], ["9" * 19, "0" * 32], ["1", "x"], [1, "0" * 32], [None, None]]
)
def test_a_cursor_that_is_not_of_this_list_is_refused(producer: Api, acme: Consumer, cursor: list[Any]) -> None:
    encoded = base64.urlsafe_b64encode(orjson.dumps(cursor)).decode()
    answer = producer.get("events/", consumer="acme", cursor=encoded)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


@pytest.mark.parametrize(
    "changes", [{"archived": True}, {"versions": [{"api_version": "1", "schema": {"required": ["x"]}}]}]
)
def test_an_event_sent_again_is_a_duplicate_although_its_type_would_refuse_it_now(
    producer: Api, acme: Consumer, changes: dict[str, Any]
) -> None:
    first = producer.post("events/", {**EVENT, "id": "e-1"}).json()
    event_type = event_types.find("invoice.paid")
    assert event_type
    event_types.update(event_type, changes)

    again = producer.post("events/", {**EVENT, "id": "e-1"})
    new = producer.post("events/", {**EVENT, "id": "e-2"})
    both = producer.post("events/batch/", {"events": [{**EVENT, "id": "e-1"}, {**EVENT, "id": "e-2"}, EVENT]})

    assert (again.status_code, again.json()) == (202, first)
    assert new.status_code == 400
    assert [result["status"] for result in both.json()["results"]] == ["duplicate", "refused", "refused"]
    assert Event.objects.count() == 1


def test_our_own_id_of_an_event_is_never_hidden_by_a_producers(producer: Api, acme: Consumer) -> None:
    ours = producer.post("events/", {**EVENT, "data": {"of": "ours"}}).json()["id"]
    producer.post("events/", {**EVENT, "id": ours, "data": {"of": "theirs"}})
    assert producer.get(f"events/{ours}/").json()["data"] == {"of": "ours"}


def ids_of(answer: Any) -> list[str]:
    return sorted(row["id"] for row in answer.json()["results"])


def test_events_are_found_by_type_ordering_key_consumer_and_time(producer: Api, acme: Consumer) -> None:
    consumers.create(uid="globex")
    producer.post("events/", {**EVENT, "id": "a", "ordering_key": "k"})
    producer.post("events/", {**EVENT, "id": "b", "type": "order.made"})
    producer.post("events/", {**EVENT, "id": "c", "consumer": "globex", "ordering_key": "k"})
    hour_ago, in_an_hour = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))

    assert ids_of(producer.get("events/", type="invoice.paid")) == ["a", "c"]
    assert ids_of(producer.get("events/", ordering_key="k")) == ["a", "c"]
    assert ids_of(producer.get("events/", ordering_key="k", consumer="acme")) == ["a"]
    assert ids_of(producer.get("events/", since=hour_ago.isoformat(), until=in_an_hour.isoformat())) == ["a", "b", "c"]
    assert ids_of(producer.get("events/", since=in_an_hour.isoformat())) == []
    assert ids_of(producer.get("events/", until=hour_ago.isoformat())) == []
    assert ids_of(producer.get("events/", type="nothing")) == []


def test_a_time_splits_events_where_it_lies(producer: Api, acme: Consumer) -> None:
    producer.post("events/", {**EVENT, "id": "before"})
    # Ids tell milliseconds apart, no less.
    between = (timezone.now() + timedelta(milliseconds=1)).isoformat(timespec="milliseconds")
    while timezone.now() < datetime.fromisoformat(between) + timedelta(milliseconds=1):
        pass
    producer.post("events/", {**EVENT, "id": "after"})

    assert ids_of(producer.get("events/", until=between)) == ["before"]
    assert ids_of(producer.get("events/", since=between)) == ["after"]
    assert len(producer.get("deliveries/", since=between).json()["results"]) == 0


def test_events_and_deliveries_are_found_by_the_state_of_delivery(
    producer: Api, acme: Consumer, pump: PumpRunner
) -> None:
    endpoint, _ = endpoints.create(consumer=acme, url=URL, retry_schedule=[0])
    producer.post("events/", {**EVENT, "id": "good"})
    producer.post("events/", {**EVENT, "id": "bad", "type": "invoice.voided"})
    pump.run(transport=httpx.MockTransport(_answers_by_type))
    producer.post("events/", {**EVENT, "id": "new"})

    found = {state: ids_of(producer.get("events/", state=state)) for state in ("delivered", "dead", "pending")}

    assert found == {"delivered": ["good"], "dead": ["bad"], "pending": ["new"]}
    assert Attempt.objects.count() == 2
    dead = producer.get("deliveries/", state="dead", endpoint=endpoint.public_id).json()["results"]
    assert [(row["event"], row["dead_reason"]) for row in dead] == [("bad", "attempts_exhausted")]
    assert len(producer.get("deliveries/", event_type="invoice.paid").json()["results"]) == 2
    assert len(producer.get("deliveries/", event_type="invoice.paid", state="dead").json()["results"]) == 0


def _answers_by_type(request: httpx.Request) -> httpx.Response:
    return httpx.Response(204 if orjson.loads(request.content)["type"] == "invoice.paid" else 500)
