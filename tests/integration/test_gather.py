"""deliveries/gather.py: plain events of several requests, stored by one statement."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deliveries import database, gather
from deliveries.ingest import NewEvent
from deliveries.models import Delivery, Event
from subscriptions import consumers, endpoints, event_types, keys
from subscriptions.models import ApiKey, Consumer, Role
from tests.conftest import Api
from tests.local import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}


@pytest.fixture
def known(acme: Consumer) -> tuple[Api, ApiKey]:
    """A producer who has sent before: its key, the consumer and the event type are remembered.

    Three times: the second may meet what this process remembers of another test's consumer, and forgets it.
    """
    endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    key, secret = keys.issue(role=Role.PRODUCER)
    api = Api(secret)
    assert [api.post("events/", EVENT).status_code for _ in range(3)] == [202, 202, 202]
    return api, key


def statements_of(api: Api, event: dict[str, Any]) -> tuple[int, int]:
    with CaptureQueriesContext(connection) as captured:
        answer = api.post("events/", event)
    return answer.status_code, len(captured)


def test_a_plain_event_like_the_one_before_takes_one_statement(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    assert statements_of(api, EVENT) == (202, 1)
    assert (Event.objects.count(), Delivery.objects.count()) == (4, 4)


def test_both_ways_answer_and_store_the_same(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    event = {**EVENT, "occurred_at": "2026-01-31T12:00:00+02:00", "api_version": "7", "data": {"é": [1.5, "\u2028"]}}
    short = api.post("events/", event)
    long = api.post("events/", event, headers={"Idempotency-Key": "k"})
    own = {"id", "created_at"}
    assert {name: value for name, value in short.json().items() if name not in own} == {
        name: value for name, value in long.json().items() if name not in own
    }
    assert short.json()["occurred_at"] == "2026-01-31T10:00:00.000000Z"
    assert api.get(f"events/{short.json()['id']}/").json() == short.json()
    bodies = [bytes(row.body or b"") for row in Event.objects.order_by("id")[3:]]
    assert bodies[0].split(b'"data"')[1] == bodies[1].split(b'"data"')[1]


def test_a_revoked_key_is_refused_at_once_although_it_is_remembered(known: tuple[Api, ApiKey], acme: Consumer) -> None:
    api, key = known
    ApiKey.objects.filter(id=key.id).update(revoked_at=timezone.now())
    answer = api.post("events/", EVENT)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert Event.objects.count() == 3


def test_an_expired_key_is_refused_at_once_although_it_is_remembered(known: tuple[Api, ApiKey]) -> None:
    api, key = known
    ApiKey.objects.filter(id=key.id).update(expires_at=timezone.now())
    assert api.post("events/", EVENT).status_code == 401
    assert Event.objects.count() == 3


def test_a_consumer_s_key_emits_nothing_however_often_it_has_called(acme_api: Api, acme: Consumer) -> None:
    for _ in range(2):
        assert acme_api.get("consumers/acme/").status_code == 200
        assert acme_api.post("events/", EVENT).status_code == 403
    assert Event.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"consumer": "nobody"}, 404, "consumer_not_found"),
        ({"type": "Ünknown"}, 400, "invalid"),
        ({"data": []}, 400, "invalid"),
    ],
    ids=["consumer", "type", "shape"],
)
def test_what_is_refused_is_refused_as_on_the_long_way_and_writes_nothing(
    change: dict[str, Any], status: int, code: str, known: tuple[Api, ApiKey]
) -> None:
    assert_refused(known[0], {**EVENT, **change}, status, code)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"archived": True}, "event_type_archived"),
        ({"versions": [{"api_version": "1", "schema": {"required": ["total"]}}]}, "schema_mismatch"),
    ],
)
def test_a_type_changed_a_moment_ago_is_judged_by_what_it_is_now(
    changes: dict[str, Any], code: str, known: tuple[Api, ApiKey]
) -> None:
    event_type = event_types.find("invoice.paid")
    assert event_type
    event_types.update(event_type, changes)
    assert_refused(known[0], EVENT, 400, code)


def assert_refused(api: Api, event: dict[str, Any], status: int, code: str) -> None:
    short = api.post("events/", event)
    long = api.post("events/", event, headers={"Idempotency-Key": "k"})
    assert (short.status_code, short.json()["code"]) == (status, code)
    assert short.json() == long.json()
    assert Event.objects.count() == 3


def test_an_emit_that_changes_from_the_short_way_to_the_long_counts_once(acme: Consumer, settings: Any) -> None:
    settings.API_RATE_PER_SECOND, settings.API_RATE_BURST = 1, 3
    api = Api(keys.issue(role=Role.PRODUCER)[1])
    # The first makes the key known; each of the others begins on the short way.
    answers = [api.post("events/", {**EVENT, "consumer": "nobody"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [404, 404, 404]


def test_a_length_that_is_no_number_is_refused(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    assert api.post("events/", EVENT, headers={"Content-Length": "many"}).status_code == 400
    assert Event.objects.count() == 3


def test_a_deleted_consumer_s_uid_given_to_another_reaches_the_other(known: tuple[Api, ApiKey], acme: Consumer) -> None:
    api, _ = known
    Consumer.objects.filter(id=acme.id).update(deleted_at=timezone.now(), uid=None)
    heir = consumers.create(uid="acme")
    answer = api.post("events/", EVENT)
    assert (answer.status_code, answer.json()["delivery_count"]) == (202, 0)
    assert Event.objects.order_by("-id")[0].consumer_id == heir.id


def test_events_of_one_moment_share_a_statement_and_each_caller_gets_its_own(
    known: tuple[Api, ApiKey], acme: Consumer
) -> None:
    """A lock holds the first one up; the others come meanwhile."""
    _, key = known
    other = consumers.create(uid="other")
    together = gather._together()
    groups: list[int] = []
    accept_all = together._work

    def watched(items: Any) -> Any:
        groups.append(len(items))
        return accept_all(items)

    together._work = watched
    callers = ThreadPoolExecutor(max_workers=6)

    def emit(number: int, consumer: str) -> Any:
        new = NewEvent(consumer=consumer, type="invoice.paid", data={"number": number})
        try:
            return gather.accept(new, key_id=key.id, now=timezone.now())
        finally:
            connections.close_all()

    try:
        with psycopg.connect(database.conninfo()) as holder:
            holder.execute("LOCK TABLE deliveries_event IN SHARE MODE")
            futures = [callers.submit(emit, 0, "acme")]
            wait_until(lambda: groups == [1], seconds=30)
            for number, consumer in enumerate(["acme", "other", "nobody", "acme"], start=1):
                futures.append(callers.submit(emit, number, consumer))
                wait_until(lambda: len(together._waiting) == len(futures) - 1, seconds=30)
            holder.rollback()
        results = [future.result(30) for future in futures]
    finally:
        together._work = accept_all
        callers.shutdown()
    assert groups == [1, 4]
    assert [result and (result.consumer, result.event.delivery_count) for result in results] == [
        ("acme", 1), ("acme", 1), ("other", 0), None, ("acme", 1),
    ]  # fmt: skip
    stored = {event.id: event for event in Event.objects.all()}
    assert [stored[r.event.id].consumer_id for r in results if r] == [acme.id, acme.id, other.id, acme.id]
    assert [bytes(stored[r.event.id].body or b"") for r in results if r] == [r.event.body for r in results if r]
