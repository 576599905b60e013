"""deliveries/accepting/group_commit.py: plain events of several requests, stored by one statement."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import orjson
import psycopg
import pytest
import redis
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deliveries.accepting import cache, group_commit
from deliveries.ingest import NewEvent
from deliveries.models import Delivery, Event
from deliveries.pump import database
from subscriptions import consumers, endpoints, event_types, keys
from subscriptions.idempotency import Scope
from subscriptions.limits.optional_redis import quick_redis
from subscriptions.models import ApiKey, Consumer, EventType, IdempotencyRecord, Role
from tests.conftest import Api
from tests.local import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}
# Parameters are looked at by the long way only.
LONG = "?&"


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


@pytest.fixture
def no_redis(settings: Any) -> Iterator[None]:
    """Nobody listens there."""
    settings.REDIS_URL = "redis://127.0.0.1:9/"
    quick_redis.cache_clear()
    yield
    quick_redis.cache_clear()


def statements_of(api: Api, event: dict[str, Any], **headers: str) -> tuple[int, int]:
    with CaptureQueriesContext(connection) as captured:
        answer = api.post("events/", event, headers=headers)
    return answer.status_code, len(captured)


@pytest.mark.parametrize(
    "json", ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"]
)
def test_a_plain_event_like_the_one_before_takes_one_statement(json: str, known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    assert statements_of(api, EVENT, **{"Content-Type": json}) == (202, 1)
    assert (Event.objects.count(), Delivery.objects.count()) == (4, 4)


def test_both_ways_answer_and_store_the_same(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    event = {**EVENT, "occurred_at": "2026-01-31T12:00:00+02:00", "api_version": "7", "data": {"é": [1.5, "\u2028"]}}
    short = api.post("events/", event)
    long = api.post(f"events/{LONG}", event)
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


def test_a_schema_that_was_loosened_again_is_not_held_against_anybody(known: tuple[Api, ApiKey]) -> None:
    """Regression: what had not fitted once went the long way for as long as the process lived."""
    api, _ = known
    event_type = event_types.find("invoice.paid")
    assert event_type
    event_types.update(event_type, {"versions": [{"api_version": "1", "schema": {"required": ["total"]}}]})
    assert [api.post("events/", {**EVENT, "data": {"total": 1}}).status_code for _ in range(3)] == [202, 202, 202]
    event_types.update(event_type, {"versions": [{"api_version": "1", "schema": {}}]})
    assert [api.post("events/", EVENT).status_code for _ in range(2)] == [202, 202]
    assert statements_of(api, EVENT) == (202, 1)


def assert_refused(api: Api, event: dict[str, Any], status: int, code: str) -> None:
    short = api.post("events/", event)
    long = api.post(f"events/{LONG}", event)
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


@pytest.mark.parametrize(("more", "status"), [(0, 202), (1, 400)], ids=["whole", "cut short"])
def test_a_body_that_is_cut_short_is_refused_although_it_makes_sense(
    more: int, status: int, known: tuple[Api, ApiKey]
) -> None:
    api, _ = known
    body = orjson.dumps(EVENT)
    environ: dict[str, Any] = {"wsgi.input": BytesIO(body), "CONTENT_TYPE": "application/json"}
    length = str(len(body) + more)
    answer = api._client.generic("POST", "/api/v1/events/", headers=api._headers, CONTENT_LENGTH=length, **environ)
    assert (answer.status_code, Event.objects.count()) == (status, 3 + (status == 202))


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


def test_events_of_one_moment_share_a_statement_and_each_caller_gets_its_own(
    known: tuple[Api, ApiKey], acme: Consumer
) -> None:
    """A lock holds the first one up; the others come meanwhile, and one transaction stores those that can be."""
    _, key = known
    consumers.create(uid="other")
    group = group_commit._singles()
    callers = ThreadPoolExecutor(max_workers=8)

    def emit(number: int, consumer: str, own_id: str | None) -> Any:
        new = NewEvent(consumer=consumer, type="invoice.paid", data={"number": number}, producer_id=own_id)
        be_patient()
        try:
            answer = group_commit.accept(group_commit.Emit([new], key.id, timezone.now(), None, show))
            return answer and answer.decode()
        finally:
            connections.close_all()

    def show(gathered: list[group_commit.Gathered]) -> bytes:
        [one] = gathered
        return f"{one.known.consumer} {one.data['number']} {one.event.delivery_count} {one.event.id}".encode()

    emits = [("acme", None), ("other", None), ("nobody", None), ("acme", "own"), ("other", "own"), ("acme", "own")]
    try:
        with psycopg.connect(database.conninfo()) as holder:
            holder.execute("LOCK TABLE deliveries_event IN SHARE MODE")
            futures = [callers.submit(emit, 0, "acme", None)]
            wait_until(lambda: held_up(holder) == 1, seconds=30)
            for number, (consumer, own_id) in enumerate(emits, start=1):
                futures.append(callers.submit(emit, number, consumer, own_id))
                # Nobody's event is not one to wait for.
                wait_until(lambda: len(group._waiting) + sum(f.done() for f in futures) == len(futures) - 1, seconds=30)
            holder.rollback()
        answers = [future.result(30) for future in futures]
    finally:
        callers.shutdown()
    # One of two with the same id of their own is left to the long way.
    assert [answer and answer.rpartition(" ")[0] for answer in answers] == [
        "acme 0 1", "acme 1 1", "other 2 0", None, "acme 4 1", "other 5 0", None,
    ]  # fmt: skip
    stored = {str(event.id): event for event in Event.objects.select_related("consumer")}
    rows = [stored[answer.rpartition(" ")[2]] for answer in answers if answer]
    assert [row.consumer.uid for row in rows] == ["acme", "acme", "other", "acme", "other"]
    assert len({row.xid for row in rows}) == 2
    assert len({row.xid for row in rows[1:]}) == 1


@pytest.mark.parametrize(
    ("own_ids", "transactions"),
    # A batch that may find an id taken is no company: what was stored with it would have to be undone.
    [([None, None, None], 1), (["a", "b", "c"], 3)],
    ids=["plain", "with ids of their own"],
)
def test_plain_batches_of_one_moment_share_a_statement_and_others_have_their_own(
    own_ids: list[str | None], transactions: int, known: tuple[Api, ApiKey], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    answers = emit_at_once([(own_id, known[1]) for own_id in own_ids])

    transaction_of = {str(event.id): event.xid for event in Event.objects.all()}
    shown = [answer.decode().split() for answer in answers if answer]
    assert [len(batch) for batch in shown] == [2, 2, 2]
    assert [len({transaction_of[one] for one in batch}) for batch in shown] == [1, 1, 1]
    assert len({transaction_of[one] for batch in shown for one in batch}) == transactions
    assert Event.objects.count() == Delivery.objects.count() == 3 + 2 + 6
    lines = [vars(record)["fields"]["events"] for record in caplog.records if record.msg == "events.accepted"]
    assert [len(line) for line in lines] == [2, 2, 2, 2]


def test_of_batches_of_one_moment_none_is_stored_on_the_short_way_if_one_s_key_was_revoked(
    known: tuple[Api, ApiKey],
) -> None:
    _, key = known
    other, _ = keys.issue(role=Role.PRODUCER)

    def revoke() -> None:
        ApiKey.objects.filter(id=other.id).update(revoked_at=timezone.now())

    answers = emit_at_once([(None, key), (None, other), (None, key)], meanwhile=revoke)

    assert answers == [None, None, None]
    assert Event.objects.count() == Delivery.objects.count() == 3 + 2


def emit_at_once(
    batches: list[tuple[str | None, ApiKey]], *, meanwhile: Callable[[], object] = lambda: None
) -> list[bytes | None]:
    """Batches of two that come while another one is held up, the first of the two with an id of its own."""

    def emit(own_id: str | None, key: ApiKey) -> bytes | None:
        news = [
            NewEvent(consumer="acme", type="invoice.paid", data={}, producer_id=own_id),
            NewEvent(consumer="acme", type="invoice.paid", data={}),
        ]
        be_patient()
        try:
            return group_commit.accept(group_commit.Emit(news, key.id, timezone.now(), None, show))
        finally:
            connections.close_all()

    def show(gathered: list[group_commit.Gathered]) -> bytes:
        return b" ".join(str(one.event.id).encode() for one in gathered)

    with ThreadPoolExecutor(max_workers=4) as callers, psycopg.connect(database.conninfo()) as holder:
        holder.execute("LOCK TABLE deliveries_event IN SHARE MODE")
        first = callers.submit(emit, None, batches[0][1])
        wait_until(lambda: held_up(holder) == 1, seconds=30)
        others = [callers.submit(emit, own_id, key) for own_id, key in batches]
        # Those that wait for their turn, and those that are held up themselves.
        wait_until(lambda: len(group_commit._batches()._waiting) + held_up(holder) == 1 + len(others), seconds=30)
        meanwhile()
        holder.rollback()
        assert first.result(30)
        return [other.result(30) for other in others]


def be_patient() -> None:
    """Somebody holds a lock until all are there, however long that takes here."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '60s'")


def held_up(holder: psycopg.Connection) -> int:
    rows = holder.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'").fetchall()
    return int(rows[0][0])


BATCH = {"events": [EVENT, {**EVENT, "data": {"amount": 1}}]}


def test_a_batch_like_the_one_before_takes_one_statement_and_answers_as_on_the_long_way(
    known: tuple[Api, ApiKey],
) -> None:
    api, _ = known
    with CaptureQueriesContext(connection) as captured:
        short = api.post("events/batch/", BATCH)
    assert (short.status_code, len(captured), Event.objects.count(), Delivery.objects.count()) == (202, 1, 5, 5)
    long = api.post(f"events/batch/{LONG}", BATCH)
    assert [without_own(one) for one in short.json()["results"]] == [without_own(one) for one in long.json()["results"]]
    for one in short.json()["results"]:
        assert one["status"] == "accepted"
        assert api.get(f"events/{one['event']['id']}/").json() == one["event"]


def without_own(result: dict[str, Any]) -> dict[str, Any]:
    event = {name: value for name, value in result["event"].items() if name not in ("id", "created_at")}
    return {**result, "event": event}


@pytest.mark.parametrize("path", ["events/", "events/batch/"])
def test_an_emit_with_a_key_is_answered_on_the_short_way_and_once(
    path: str, known: tuple[Api, ApiKey], patient_redis: "redis.Redis"
) -> None:
    api, _ = known
    body, count = (EVENT, 1) if path == "events/" else (BATCH, 2)
    with CaptureQueriesContext(connection) as captured:
        first = api.post(path, body, headers={"Idempotency-Key": "k"})
    # Begin, the events, the answer, commit.
    assert (first.status_code, len(captured), "Allow" in first) == (202, 4, False)
    again = api.post(path, body, headers={"Idempotency-Key": '"k"'})
    # Redis forgets, and the constraint decides.
    patient_redis.flushdb()
    later = api.post(f"{path.rstrip('/')}", body, headers={"Idempotency-Key": "k"})
    assert [again.content, later.content] == [first.content, first.content]
    assert [one.headers.get("Idempotent-Replayed") for one in (first, again, later)] == [None, "true", "true"]
    others = {**EVENT, "api_version": "2"} if path == "events/" else {"events": [EVENT]}
    other = api.post(path, others, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert Event.objects.count() == 3 + count


@pytest.mark.parametrize(("first", "second"), [("", LONG), (LONG, "")], ids=["short first", "long first"])
@pytest.mark.parametrize("path", ["events/", "events/batch/"])
def test_a_key_is_the_same_key_on_both_ways(path: str, first: str, second: str, known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    event: dict[str, Any] = {**EVENT, "data": {"é": [1.0, 1e22, "\u2028"]}}
    body = event if path == "events/" else {"events": [event, {**EVENT, "id": "own"}]}
    answers = [api.post(f"{path}{way}", body, headers={"Idempotency-Key": "k"}) for way in (first, second)]
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None, "true"]
    assert answers[0].content == answers[1].content
    more = {**event, "api_version": "2"}
    others = more if path == "events/" else {"events": [more]}
    other = api.post(f"{path}{second}", others, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")


def together(key: ApiKey, *emits: tuple[str | None, str | None]) -> list[bytes | None]:
    """Emits of one moment, each with an Idempotency-Key and an id of its own or without."""
    ready = []
    for number, (named, own_id) in enumerate(emits):
        scope = named and Scope(key.owner, "POST /api/v1/events", named, fingerprint=bytes(32))
        ready.append(ready_of(key, number=number, own_id=own_id, scope=scope or None))
    return group_commit._accept_all(ready)


def ready_of(
    key: ApiKey, *, number: int = 0, own_id: str | None = None, scope: Scope | None = None
) -> group_commit._Ready:
    new = NewEvent(consumer="acme", type="invoice.paid", data={"number": number}, producer_id=own_id)
    ready = group_commit._ready(group_commit.Emit([new], key.id, timezone.now(), scope, id_of))
    assert ready is not None
    return ready


def id_of(gathered: list[group_commit.Gathered]) -> bytes:
    return gathered[0].event.id.hex.encode()


@pytest.mark.parametrize("own_id", [None, "own"])
def test_of_two_keys_of_one_moment_one_that_was_revoked_stores_nothing(
    own_id: str | None, known: tuple[Api, ApiKey]
) -> None:
    _, key = known
    other, _ = keys.issue(role=Role.PRODUCER)
    ready = [ready_of(key, number=1, own_id=own_id), ready_of(other, number=2), ready_of(key, number=3)]
    ApiKey.objects.filter(id=other.id).update(revoked_at=timezone.now())
    answers = group_commit._accept_all(ready)
    assert [answer is not None for answer in answers] == [True, False, True]
    assert (Event.objects.count(), Delivery.objects.count()) == (5, 5)


def test_a_consumer_named_in_two_ways_in_one_batch_gets_both_events(known: tuple[Api, ApiKey], acme: Consumer) -> None:
    api, _ = known
    batch = {"events": [EVENT, {**EVENT, "consumer": acme.public_id}]}
    assert api.post("events/batch/", batch).status_code == 202
    with CaptureQueriesContext(connection) as captured:
        answer = api.post("events/batch/", batch)
    assert (answer.status_code, len(captured)) == (202, 1)
    assert [one["event"]["delivery_count"] for one in answer.json()["results"]] == [1, 1]
    assert (Event.objects.count(), Delivery.objects.count()) == (7, 7)


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


def test_a_key_that_turns_out_to_be_taken_undoes_all_that_were_stored_with_it(
    known: tuple[Api, ApiKey], patient_redis: "redis.Redis"
) -> None:
    _, key = known
    assert None not in together(key, ("taken", None))
    patient_redis.flushdb()
    assert together(key, (None, None), ("fresh", None), ("taken", "own"), (None, "own-2")) == [None] * 4
    assert (Event.objects.count(), Delivery.objects.count(), IdempotencyRecord.objects.count()) == (4, 4, 1)
    # By now Redis knows, also of the one that came to nothing, and the others are stored.
    answers = together(key, (None, None), ("fresh", None), ("taken", "own"), (None, "own-2"))
    assert [answer is not None for answer in answers] == [True, False, False, True]
    assert (Event.objects.count(), Delivery.objects.count(), IdempotencyRecord.objects.count()) == (6, 6, 1)


def test_without_redis_who_repeats_a_key_costs_nobody_else_the_short_way(
    known: tuple[Api, ApiKey], no_redis: None
) -> None:
    _, key = known
    assert None not in together(key, ("taken", None), ("taken too", "own"))
    emits = [(None, None), ("taken", None), ("fresh", None), ("fresh", None), ("new", "own"), ("new", None)]
    answers = together(key, *emits)
    # Two with one key are one; whoever's id is taken, or stands behind another with its key, takes the long way.
    assert [answer is not None for answer in answers] == [True, False, True, False, False, False]
    stored = {row.id.hex for row in Event.objects.all()}
    assert {answer.decode() for answer in answers if answer} < stored
    assert (Event.objects.count(), Delivery.objects.count(), IdempotencyRecord.objects.count()) == (7, 7, 3)


def test_an_event_with_an_id_of_its_own_takes_one_statement_and_is_accepted_once(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    event = {**EVENT, "id": "own-1"}
    assert statements_of(api, event) == (202, 1)
    again = api.post("events/", event)
    assert (again.status_code, again.json()) == (202, api.get("events/own-1/").json())
    other = api.post("events/", {**event, "data": {}})
    assert (other.status_code, other.json()["code"]) == (409, "event_id_reused")
    assert (Event.objects.count(), Delivery.objects.count()) == (4, 4)
    # One that is taken says nothing against its kind.
    assert statements_of(api, {**EVENT, "id": "own-2"}) == (202, 1)


def test_a_batch_of_ids_of_their_own_is_accepted_whole_or_on_the_long_way(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    fresh = [{**EVENT, "id": f"own-{number}"} for number in range(3)]
    with CaptureQueriesContext(connection) as captured:
        answer = api.post("events/batch/", {"events": fresh[:2]})
    assert (answer.status_code, len(captured)) == (202, 3)
    answer = api.post("events/batch/", {"events": fresh})
    assert [one["status"] for one in answer.json()["results"]] == ["duplicate", "duplicate", "accepted"]
    assert (Event.objects.count(), Delivery.objects.count()) == (6, 6)


def test_a_refused_emit_leaves_its_key_free(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    refused = api.post("events/", {**EVENT, "consumer": "nobody"}, headers={"Idempotency-Key": "k"})
    accepted = api.post("events/", EVENT, headers={"Idempotency-Key": "k"})
    assert [refused.status_code, accepted.status_code] == [404, 202]
    assert Event.objects.count() == 4


@pytest.mark.parametrize("key", ["", " ", '""', "k" * 256, "kéy"])
def test_a_key_that_is_none_is_refused_on_the_short_way_too(key: str, known: tuple[Api, ApiKey]) -> None:
    answer = known[0].post("events/", EVENT, headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_invalid")
    assert Event.objects.count() == 3


@pytest.mark.parametrize(
    "other",
    [{"consumer": "nobody"}, {"data": []}, {"ordering_key": "k"}, {"type": "invoice.new"}],
    ids=["consumer", "shape", "ordering", "type"],
)
def test_a_batch_with_one_that_is_ordered_or_not_known_is_accepted_once_on_the_long_way(
    other: dict[str, Any], known: tuple[Api, ApiKey]
) -> None:
    answer = known[0].post("events/batch/", {"events": [EVENT, {**EVENT, **other}, EVENT]})
    assert answer.status_code == 202
    statuses = [one["status"] for one in answer.json()["results"]]
    assert statuses == ["accepted", "refused" if {"consumer", "data"} & set(other) else "accepted", "accepted"]
    assert Event.objects.count() == 3 + statuses.count("accepted")


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


def test_both_ways_answer_with_the_same_headers(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    short = api.post("events/", EVENT)
    long = api.post(f"events/{LONG}", EVENT)
    # The first two are counted on; the third is Django REST framework's own.
    others = {"RateLimit-Remaining", "RateLimit-Reset", "Allow"}
    assert {name: value for name, value in short.items() if name not in others} == {
        name: value for name, value in long.items() if name not in others
    }
    assert {"X-Content-Type-Options", "Referrer-Policy", "RateLimit-Limit"} <= set(short.headers)


@pytest.mark.parametrize("path", ["events/", "events/batch/"])
def test_a_host_that_is_not_allowed_is_refused_on_the_short_way_too(path: str, known: tuple[Api, ApiKey]) -> None:
    answer = known[0].post(path, EVENT, headers={"Host": "elsewhere.example"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert Event.objects.count() == 3


@pytest.mark.parametrize(("path", "body"), [("events/", EVENT), ("events/batch/", BATCH)])
def test_a_database_that_does_not_answer_is_a_503_that_says_so(
    path: str, body: dict[str, Any], known: tuple[Api, ApiKey]
) -> None:
    """The statement waits for a lock for as long as DATABASE_LOCK_TIMEOUT_MS says, and is not tried again."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = 1")
    try:
        with psycopg.connect(database.conninfo()) as holder:
            holder.execute("LOCK TABLE deliveries_event IN SHARE MODE")
            answer = known[0].post(path, body)
    finally:
        connection.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert Event.objects.count() == 3


@pytest.mark.parametrize(("path", "body", "count"), [("events/", EVENT, 1), ("events/batch/", BATCH, 2)])
def test_what_is_forgotten_while_it_is_being_stored_is_stored_once(
    path: str, body: dict[str, Any], count: int, known: tuple[Api, ApiKey]
) -> None:
    """Another thread forgets it: its memory is full, or its key was revoked."""
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
        cache._memory.clear()
        holder.rollback()
        answer = emitting.result(30)
    shown = answer.json().get("results", [answer.json()])
    assert (answer.status_code, len(shown), Event.objects.count()) == (202, count, 3 + count)


@pytest.mark.parametrize(("path", "body", "count"), [("events/", EVENT, 1), ("events/batch/", BATCH, 2)])
def test_a_connection_that_died_while_it_was_idle_is_replaced_without_a_word(
    path: str, body: dict[str, Any], count: int, known: tuple[Api, ApiKey]
) -> None:
    api, _ = known
    with psycopg.connect(database.conninfo(), autocommit=True) as other:
        # Waits until the process is gone.
        other.execute("SELECT pg_terminate_backend(%s, 30000)", [connection.connection.info.backend_pid])
    answer = api.post(path, body)
    assert (answer.status_code, Event.objects.count()) == (202, 3 + count)
    # Only the long way says what is allowed.
    assert "Allow" not in answer


@pytest.mark.parametrize(("path", "body"), [("events/", EVENT), ("events/batch/", BATCH)])
def test_parameters_are_judged_as_on_the_long_way(path: str, body: dict[str, Any], known: tuple[Api, ApiKey]) -> None:
    answer = known[0].post(f"{path}?at=%00", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")
    assert Event.objects.count() == 3


def test_a_revoked_key_is_forgotten_when_it_is_refused(db: None) -> None:
    key, secret = keys.issue(role=Role.PRODUCER)
    assert keys.verify(secret) is not None
    assert keys.remembered(secret) is not None
    ApiKey.objects.filter(id=key.id).update(revoked_at=timezone.now())
    assert keys.verify(secret) is None
    assert keys.remembered(secret) is None


def test_an_error_before_anything_is_stored_is_answered_as_any_other(known: tuple[Api, ApiKey], settings: Any) -> None:
    api, _ = known
    api._client.raise_request_exception = False
    settings.API_RATE_PER_SECOND = "many"
    answer = api.post("events/", EVENT)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert Event.objects.count() == 3
