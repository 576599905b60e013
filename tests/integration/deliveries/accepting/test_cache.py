"""deliveries/accepting/cache.py: what is remembered spares a look-up, and is never relied on alone."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from deliveries.accepting import cache
from deliveries.models import Delivery, Event
from deliveries.pump import database
from subscriptions import consumers, event_types, keys
from subscriptions.models import ApiKey, Consumer, EventType, Role
from tests.conftest import Api
from tests.emitting import BATCH, EVENT, THROUGH_DJANGO, be_patient, held_up, statements_of
from tests.local import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# Twice the same test: whichever runs second would meet what the first has left behind.


@pytest.mark.parametrize("run", [1, 2])
def test_nothing_is_remembered_from_one_test_to_the_next(run: int, acme: Consumer) -> None:
    api = Api(keys.issue(role=Role.PRODUCER)[1])
    assert (len(cache._entries), len(keys._remembered)) == (0, 0)
    # The key, the look-up, begin, the first use of the type, the event, commit; and the key's last use.
    assert statements_of(api, EVENT) == (202, 7)
    # The type had no event before, so it was not remembered yet.
    assert statements_of(api, EVENT) == (202, 2)
    assert statements_of(api, EVENT) == (202, 1)
    assert (len(cache._entries), len(keys._remembered)) == (1, 1)


@pytest.mark.parametrize(
    "json", ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"]
)
def test_a_plain_event_like_the_one_before_takes_one_statement(json: str, known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    assert statements_of(api, EVENT, **{"Content-Type": json}) == (202, 1)
    assert (Event.objects.count(), Delivery.objects.count()) == (4, 4)


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
    before = known[0].post("events/", EVENT)
    through = known[0].post(f"events/{THROUGH_DJANGO}", EVENT)
    assert (before.status_code, before.json()["code"]) == (400, code)
    assert before.json() == through.json()
    assert Event.objects.count() == 3


def test_a_schema_that_was_loosened_again_is_not_held_against_anybody(known: tuple[Api, ApiKey]) -> None:
    """Regression: what had not fitted once was looked up each time, for as long as the process lived."""
    api, _ = known
    event_type = event_types.find("invoice.paid")
    assert event_type
    event_types.update(event_type, {"versions": [{"api_version": "1", "schema": {"required": ["total"]}}]})
    assert [api.post("events/", {**EVENT, "data": {"total": 1}}).status_code for _ in range(3)] == [202, 202, 202]
    event_types.update(event_type, {"versions": [{"api_version": "1", "schema": {}}]})
    assert [api.post("events/", EVENT).status_code for _ in range(2)] == [202, 202]
    assert statements_of(api, EVENT) == (202, 1)


def test_a_type_that_was_deleted_and_made_again_is_noted_as_used_again(known: tuple[Api, ApiKey]) -> None:
    """As in the admin. A type of which nobody knows that it has events could be deleted for good."""
    api, _ = known
    EventType.objects.filter(name="invoice.paid").delete()
    event_types.create(name="invoice.paid")
    assert api.post("events/", EVENT).status_code == 202
    made_again = event_types.find("invoice.paid")
    assert made_again
    assert (made_again.used_at is not None, event_types.delete(made_again)) == (True, False)


def test_a_deleted_consumer_s_uid_given_to_another_reaches_the_other(known: tuple[Api, ApiKey], acme: Consumer) -> None:
    api, _ = known
    Consumer.objects.filter(id=acme.id).update(deleted_at=timezone.now(), uid=None)
    heir = consumers.create(uid="acme")
    answer = api.post("events/", EVENT)
    assert (answer.status_code, answer.json()["delivery_count"]) == (202, 0)
    assert Event.objects.order_by("-id")[0].consumer_id == heir.id


@pytest.mark.parametrize("change", [{"uid": "renamed"}, {"deleted_at": timezone.now(), "uid": None}])
def test_a_batch_for_several_consumers_of_whom_one_is_gone_is_judged_item_by_item(
    change: dict[str, Any], known: tuple[Api, ApiKey]
) -> None:
    api, _ = known
    other = consumers.create(uid="other")
    batch = {"events": [EVENT, {**EVENT, "consumer": "other"}]}
    assert [one["status"] for one in api.post("events/batch/", batch).json()["results"]] == ["accepted", "accepted"]
    Consumer.objects.filter(id=other.id).update(**change)
    answer = api.post("events/batch/", batch)
    assert [one["status"] for one in answer.json()["results"]] == ["accepted", "refused"]
    assert Event.objects.count() == 6


def test_a_batch_with_a_type_archived_a_moment_ago_stores_the_others_once(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    second = {**EVENT, "type": "invoice.voided"}
    assert api.post("events/batch/", {"events": [EVENT, second]}).status_code == 202
    assert api.post("events/batch/", {"events": [EVENT, second]}).status_code == 202
    event_type = event_types.find("invoice.voided")
    assert event_type
    event_types.update(event_type, {"archived": True})
    answer = api.post("events/batch/", {"events": [EVENT, second]})
    assert [one["status"] for one in answer.json()["results"]] == ["accepted", "refused"]
    assert Event.objects.count() == 8


@pytest.mark.parametrize(("path", "body", "count"), [("events/", EVENT, 1), ("events/batch/", BATCH, 2)])
def test_what_is_forgotten_while_it_is_being_stored_is_stored_once(
    path: str, body: dict[str, Any], count: int, known: tuple[Api, ApiKey]
) -> None:
    """Another thread forgets it: there are too many, or one of them was stale."""
    api, _ = known

    def emit() -> Any:
        be_patient()
        try:
            return api.post(path, body)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as caller, psycopg.connect(database.conninfo()) as holder:
        holder.execute("LOCK TABLE deliveries_event IN SHARE MODE")
        emitting = caller.submit(emit)
        wait_until(lambda: held_up(holder) == 1, seconds=30)
        cache.clear()
        holder.rollback()
        answer = emitting.result(30)
    shown = answer.json().get("results", [answer.json()])
    assert (answer.status_code, len(shown), Event.objects.count()) == (202, count, 3 + count)


def test_a_revoked_key_is_forgotten_when_it_is_refused(db: None) -> None:
    key, secret = keys.issue(role=Role.PRODUCER)
    assert keys.verify(secret) is not None
    assert keys.remembered(secret) is not None
    ApiKey.objects.filter(id=key.id).update(revoked_at=timezone.now())
    assert keys.verify(secret) is None
    assert keys.remembered(secret) is None
