"""deliveries/accepting/group_commit.py: emits of one moment share a transaction, and none of them undoes another's."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import psycopg
import pytest
from django.db import InternalError, connection, connections, transaction
from django.db.backends.signals import connection_created
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deliveries import ingest
from deliveries.accepting import group_commit
from deliveries.ingest import Accepted, NewEvent
from deliveries.models import Delivery, Event, OrderingKey
from deliveries.pump import database
from subscriptions import consumers, event_types, idempotency, keys
from subscriptions.idempotency import KeyReused, StoredAnswer
from subscriptions.models import ApiKey, Consumer, IdempotencyRecord, Role
from tests.conftest import Api
from tests.emitting import BATCH, EVENT, emit_at_once, emit_of, new_event, statements_of
from tests.local import wait_until
from tests.servers import needs_session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def key(known: tuple[Api, ApiKey]) -> ApiKey:
    return known[1]


def transactions() -> list[int]:
    """How many events each transaction stored, the three of the fixture aside, in the order of their ids."""
    xids = list(Event.objects.order_by("id").values_list("xid", flat=True))[3:]
    return [xids.count(xid) for xid in dict.fromkeys(xids)]


def revoke(key: ApiKey) -> None:
    ApiKey.objects.filter(id=key.id).update(revoked_at=timezone.now())


# ── Single events ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_of_one_moment_share_a_transaction_and_each_caller_gets_its_own(key: ApiKey) -> None:
    consumers.create(uid="other")
    answers = emit_at_once(
        emit_of(key, new_event(0)),
        emit_of(key, new_event(1)),
        emit_of(key, new_event(2, consumer="other")),
        emit_of(key, new_event(3, consumer="nobody")),
        emit_of(key, new_event(4, producer_id="own")),
        emit_of(key, new_event(5, consumer="other", producer_id="own")),
        emit_of(key, new_event(6), idempotency_key="k"),
    )
    assert answers == [
        "Accepted 1 None 1",
        "Accepted 2 None 0",
        "consumer_not_found",
        "Accepted 4 None 1",
        "Accepted 5 None 0",
        "Accepted 6 None 1",
    ]
    assert sorted(transactions()) == [1, 5]
    assert (Event.objects.count(), Delivery.objects.count(), IdempotencyRecord.objects.count()) == (9, 7, 1)


def test_a_producer_id_that_is_taken_undoes_nothing_of_the_others(key: ApiKey) -> None:
    taken = new_event(1, producer_id="taken")
    assert group_commit.emit(emit_of(key, taken)).body == b"Accepted 1 None 1"
    answers = emit_at_once(
        emit_of(key, new_event(0)),
        emit_of(key, new_event(2)),
        emit_of(key, taken),
        emit_of(key, taken._replace(data={"number": 7})),
        emit_of(key, new_event(3, producer_id="own")),
        emit_of(key, new_event(3, producer_id="own"), idempotency_key="k"),
    )
    assert answers == [
        "Accepted 2 None 1",
        "Duplicate 1 None 1",
        "event_id_reused",
        "Accepted 3 None 1",
        "Duplicate 3 None 1",
    ]
    # The opener, and all others together: nobody had to be tried again.
    assert sorted(transactions()) == [1, 1, 2]
    assert IdempotencyRecord.objects.count() == 1


def test_what_is_committed_is_not_stored_again_when_looking_for_a_taken_id_fails(key: ApiKey) -> None:
    """Regression: plain events share one statement without a transaction. An error after it, while reading whose id was
    taken, had each of them tried once more, alone."""
    taken = new_event(1, producer_id="taken")
    group_commit.emit(emit_of(key, taken))
    failures = [InternalError("could not read block 7")]

    def fail_once(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql == ingest.FIND_BY_PRODUCER_ID and failures:
            raise failures.pop()
        return execute(sql, params, many, context)

    def listen(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(fail_once)

    connection_created.connect(listen)
    try:
        answers = emit_at_once(emit_of(key, new_event(0)), emit_of(key, new_event(2)), emit_of(key, taken))
    finally:
        connection_created.disconnect(listen)
    assert (answers, failures) == (["Accepted 2 None 1", "Duplicate 1 None 1"], [])
    assert (Event.objects.count(), Delivery.objects.count()) == (3 + 3, 3 + 3)


def test_an_idempotency_key_that_is_known_undoes_nothing_of_the_others(key: ApiKey) -> None:
    first = group_commit.emit(emit_of(key, new_event(1), idempotency_key="taken"))
    reused = emit_of(key, new_event(2), idempotency_key="taken")
    assert reused.scope
    answers = emit_at_once(
        emit_of(key, new_event(0)),
        emit_of(key, new_event(3)),
        emit_of(key, new_event(1), idempotency_key="taken"),
        reused._replace(scope=type(reused.scope)(*reused.scope.name, fingerprint=b"another")),
        emit_of(key, new_event(4), idempotency_key="fresh"),
        emit_of(key, new_event(4), idempotency_key="fresh"),
    )
    assert [answers[0], answers[1], answers[3], answers[4]] == [
        "Accepted 3 None 1",
        first.body.decode(),
        "Accepted 4 None 1",
        "Accepted 4 None 1",
    ]
    assert isinstance(answers[2], KeyReused)
    # Before, the opener, and both others together.
    assert sorted(transactions()) == [1, 1, 2]
    assert (Event.objects.count(), IdempotencyRecord.objects.count()) == (7, 2)


def test_an_idempotency_key_taken_at_that_moment_is_found_and_the_others_are_stored(key: ApiKey) -> None:
    """Its answer is committed after the group has looked for one, while the group waits to keep its own."""
    taken = emit_of(key, new_event(1), idempotency_key="taken")
    assert taken.scope
    transaction.set_autocommit(False)
    try:
        assert idempotency.keep([(taken.scope, StoredAnswer(status_code=202, body=b"kept"))]) == set()
        answers = emit_at_once(
            emit_of(key, new_event(0)),
            emit_of(key, new_event(2), idempotency_key="fresh"),
            taken,
            emit_of(key, new_event(3)),
            then=commit_when_somebody_waits,
        )
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert answers == ["Accepted 2 None 1", "kept", "Accepted 3 None 1"]
    assert (Event.objects.count(), Delivery.objects.count(), IdempotencyRecord.objects.count()) == (6, 6, 2)
    assert sorted(transactions()) == [1, 2]


def commit_when_somebody_waits() -> None:
    wait_until(lambda: waiting() == 1, seconds=30)
    transaction.commit()


def waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
        return int((cursor.fetchone() or [0])[0])


@pytest.mark.parametrize("own_id", [None, "own"])
@pytest.mark.parametrize("change", ["revoked", "archived"])
def test_what_changed_meanwhile_is_refused_and_the_others_of_its_moment_are_stored(
    change: str, own_id: str | None, key: ApiKey
) -> None:
    other, _ = keys.issue(role=Role.PRODUCER)
    event_types.create(name="invoice.voided")
    assert group_commit.emit(emit_of(key, new_event(0, type="invoice.voided"))).body == b"Accepted 0 None 1"
    voided = event_types.find("invoice.voided")
    assert voided

    answers = emit_at_once(
        emit_of(key, new_event(0)),
        emit_of(key, new_event(1, producer_id=own_id)),
        emit_of(*((other, new_event(2)) if change == "revoked" else (key, new_event(2, type="invoice.voided")))),
        emit_of(key, new_event(3)),
        meanwhile=lambda: revoke(other) if change == "revoked" else event_types.update(voided, {"archived": True}),
    )

    assert [answers[0], answers[2]] == ["Accepted 1 None 1", "Accepted 3 None 1"]
    if change == "revoked":
        assert isinstance(answers[1], group_commit.KeyEnded)
    else:
        assert answers[1] == "event_type_archived"
    assert (Event.objects.count(), Delivery.objects.count()) == (7, 7)
    assert sorted(transactions()) == [1, 1, 2]


def test_an_event_with_an_id_of_its_own_takes_one_statement_and_is_accepted_once(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    event = {**EVENT, "id": "own-1"}
    assert statements_of(api, event) == (202, 1)
    again = api.post("events/", event)
    assert (again.status_code, again.json()) == (202, api.get("events/own-1/").json())
    other = api.post("events/", {**event, "data": {}})
    assert (other.status_code, other.json()["code"]) == (409, "event_id_reused")
    assert (Event.objects.count(), Delivery.objects.count()) == (4, 4)
    # An id that is taken says nothing against its kind.
    assert statements_of(api, {**EVENT, "id": "own-2"}) == (202, 1)


# ── Events with an ordering key ──────────────────────────────────────────────────────────────────────────────────────


def keyed(number: int, ordering_key: str = "a", **fields: Any) -> NewEvent:
    return new_event(number, ordering_key=ordering_key, **fields)


def sequences() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, sequence in Event.objects.exclude(ordering_key=None).values_list("ordering_key", "sequence"):
        found.setdefault(name or "", []).append(sequence or 0)
    return {name: sorted(numbers) for name, numbers in found.items()}


def test_ordered_events_of_one_moment_share_a_transaction_and_are_numbered_without_gaps(
    known: tuple[Api, ApiKey], key: ApiKey
) -> None:
    answers = emit_at_once(
        emit_of(key, keyed(0, "opener")),
        emit_of(key, keyed(1)),
        emit_of(key, keyed(2, "b")),
        emit_of(key, keyed(3), keyed(4, "b"), new_event(5)),
        emit_of(key, keyed(6), idempotency_key="k"),
        queue="ordered",
    )
    assert answers == [
        "Accepted 1 1 1",
        "Accepted 2 1 1",
        "Accepted 3 2 1\nAccepted 4 2 1\nAccepted 5 None 1",
        "Accepted 6 3 1",
    ]
    assert sorted(transactions()) == [1, 6]
    assert sequences() == {"opener": [1], "a": [1, 2, 3], "b": [1, 2]}
    bodies = [orjson.loads(bytes(event.body or b"")) for event in Event.objects.filter(ordering_key="a")]
    assert {(body["data"]["number"], body["sequence"]) for body in bodies} == {(1, 1), (3, 2), (6, 3)}
    assert statements_of(known[0], {**EVENT, "ordering_key": "a"}) == (202, 4)


@pytest.mark.parametrize("conflict", ["id known", "id taken", "key known", "revoked", "archived", "consumer"])
def test_an_ordered_event_that_is_not_stored_leaves_no_gap(conflict: str, key: ApiKey) -> None:
    other, _ = keys.issue(role=Role.PRODUCER)
    assert group_commit.emit(emit_of(key, keyed(1, producer_id="own"), idempotency_key="k")).body == b"Accepted 1 1 1"
    assert group_commit.emit(emit_of(key, new_event(0, type="invoice.voided"))).body == b"Accepted 0 None 1"
    voided = event_types.find("invoice.voided")
    assert voided
    emit, answer = {
        "id known": (emit_of(key, keyed(1, producer_id="own")), "Duplicate 1 1 1"),
        "id taken": (emit_of(key, keyed(7, producer_id="own")), "event_id_reused"),
        "key known": (emit_of(key, keyed(1, producer_id="own"), idempotency_key="k"), "Accepted 1 1 1"),
        "revoked": (emit_of(other, keyed(2)), None),
        "archived": (emit_of(key, keyed(2, type="invoice.voided")), "event_type_archived"),
        "consumer": (emit_of(key, keyed(2, consumer="nobody")), "consumer_not_found"),
    }[conflict]

    def change() -> None:
        revoke(other)
        event_types.update(voided, {"archived": True})

    answers = emit_at_once(
        emit_of(key, keyed(0, "opener")), emit_of(key, keyed(3)), emit, emit_of(key, keyed(4)), queue="ordered",
        meanwhile=change,
    )  # fmt: skip

    assert [answers[0], answers[2]] == ["Accepted 3 2 1", "Accepted 4 3 1"]
    assert answers[1] == answer if answer else isinstance(answers[1], group_commit.KeyEnded)
    assert sequences() == {"opener": [1], "a": [1, 2, 3]}
    assert OrderingKey.objects.get(key="a").last_sequence == 3
    # Those of this moment shared one.
    assert transactions()[-1] == 2


def test_a_producer_id_taken_at_that_moment_leaves_no_gap_and_the_others_are_stored(key: ApiKey) -> None:
    """The id is taken under another ordering key, after the group has looked for it."""
    assert group_commit.emit(emit_of(key, keyed(0, "opener"))).body == b"Accepted 0 1 1"
    transaction.set_autocommit(False)
    try:
        [rival] = ingest.accept([keyed(1, "rival", producer_id="own")], now=timezone.now()).results
        assert isinstance(rival, Accepted)
        answers = emit_at_once(
            emit_of(key, keyed(0, "opener")),
            emit_of(key, keyed(2)),
            emit_of(key, keyed(1, producer_id="own")),
            emit_of(key, keyed(3)),
            queue="ordered",
            hold="SELECT FROM deliveries_orderingkey WHERE key = 'opener' FOR UPDATE",
            then=commit_when_somebody_waits,
        )
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert answers == ["Accepted 2 1 1", "event_id_reused", "Accepted 3 2 1"]
    assert sequences() == {"opener": [1, 2], "rival": [1], "a": [1, 2]}


def test_many_threads_number_the_events_of_a_few_keys_without_gaps_or_deadlocks(key: ApiKey) -> None:
    def emit(number: int) -> bytes:
        try:
            names = ["a", "b", "c"] if number % 2 else ["c", "b", "a"]
            return group_commit.emit(emit_of(key, *[keyed(number, name) for name in names])).body
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=8) as threads:
        answers = list(threads.map(emit, range(40)))
    assert all(answer.count(b"Accepted") == 3 for answer in answers)
    assert sequences() == {name: list(range(1, 41)) for name in "abc"}


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def two(number: int, **fields: Any) -> list[NewEvent]:
    return [new_event(number, **fields), new_event(number + 1)]


def test_batches_of_one_moment_share_a_transaction_whatever_is_in_them(
    key: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert group_commit.emit(emit_of(key, new_event(1, producer_id="taken"))).body == b"Accepted 1 None 1"
    answers = emit_at_once(
        emit_of(key, *two(0)),
        emit_of(key, *two(2)),
        emit_of(key, *two(4, producer_id="own")),
        emit_of(key, *two(1, producer_id="taken")),
        emit_of(key, *two(6, consumer="nobody"), idempotency_key="k"),
        emit_of(key, *two(8, producer_id="own")),
        queue="batch",
    )
    assert answers == [
        "Accepted 2 None 1\nAccepted 3 None 1",
        "Accepted 4 None 1\nAccepted 5 None 1",
        "Duplicate 1 None 1\nAccepted 2 None 1",
        "consumer_not_found\nAccepted 7 None 1",
        "event_id_reused\nAccepted 9 None 1",
    ]
    assert sorted(transactions()) == [1, 2, 7]
    assert IdempotencyRecord.objects.count() == 1
    many = [vars(record)["fields"] for record in caplog.records if record.msg == "events.accepted"]
    ones = [line for record in caplog.records if record.msg == "event.accepted" for line in vars(record)["fields"]]
    # Each request has a line of its own: three batches, the first event, and three batches of which one was left.
    assert ([len(line["events"]) for line in many], len(ones)) == ([2, 2, 2], 4)


def test_each_event_of_one_moment_has_a_line_under_its_own_requests_id(
    key: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    emit_at_once(*[emit_of(key, new_event(number, producer_id=f"own-{number}")) for number in range(4)])
    assert sorted(transactions()) == [1, 3]

    lines = [line for record in caplog.records if record.msg == "event.accepted" for line in vars(record)["fields"]]
    assert sorted((line["request_id"], line["event"]) for line in lines) == [
        ("request-0", "own-0"), ("request-1", "own-1"), ("request-2", "own-2"), ("request-3", "own-3"),
    ]  # fmt: skip


def test_of_batches_of_one_moment_one_that_is_stale_is_judged_anew_and_the_others_are_stored(key: ApiKey) -> None:
    other, _ = keys.issue(role=Role.PRODUCER)
    assert group_commit.emit(emit_of(key, new_event(0, type="invoice.voided"))).body == b"Accepted 0 None 1"
    voided = event_types.find("invoice.voided")
    assert voided

    def change() -> None:
        revoke(other)
        event_types.update(voided, {"archived": True})

    answers = emit_at_once(
        emit_of(key, *two(0)),
        emit_of(key, *two(2)),
        emit_of(other, *two(4)),
        emit_of(key, *two(6, type="invoice.voided")),
        emit_of(key, *two(8)),
        queue="batch",
        meanwhile=change,
    )
    assert [answers[0], *answers[2:]] == [
        "Accepted 2 None 1\nAccepted 3 None 1",
        "event_type_archived\nAccepted 7 None 1",
        "Accepted 8 None 1\nAccepted 9 None 1",
    ]
    assert isinstance(answers[1], group_commit.KeyEnded)
    assert Event.objects.count() == Delivery.objects.count() == 3 + 1 + 2 + 5


def test_a_consumer_named_in_two_ways_in_one_batch_gets_both_events(known: tuple[Api, ApiKey], acme: Consumer) -> None:
    api, _ = known
    batch = {"events": [EVENT, {**EVENT, "consumer": acme.public_id}]}
    answer = api.post("events/batch/", batch)
    assert [one["event"]["delivery_count"] for one in answer.json()["results"]] == [1, 1]
    assert (Event.objects.count(), Delivery.objects.count()) == (5, 5)


def test_a_batch_of_ids_of_their_own_is_judged_item_by_item(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    fresh = [{**EVENT, "id": f"own-{number}"} for number in range(3)]
    with CaptureQueriesContext(connection) as captured:
        answer = api.post("events/batch/", {"events": fresh[:2]})
    assert (answer.status_code, len(captured)) == (202, 3)
    answer = api.post("events/batch/", {"events": [*fresh, fresh[2], {**fresh[2], "data": {}}]})
    statuses = [one["status"] for one in answer.json()["results"]]
    assert statuses == ["duplicate", "duplicate", "accepted", "duplicate", "refused"]
    assert (Event.objects.count(), Delivery.objects.count()) == (6, 6)


@pytest.mark.parametrize(
    "other",
    [{"consumer": "nobody"}, {"data": []}, {"ordering_key": "k"}, {"type": "invoice.new"}],
    ids=["consumer", "shape", "ordering", "type"],
)
def test_a_batch_with_one_event_unlike_the_others_is_accepted_once(
    other: dict[str, Any], known: tuple[Api, ApiKey]
) -> None:
    answer = known[0].post("events/batch/", {"events": [EVENT, {**EVENT, **other}, EVENT]})
    assert answer.status_code == 202
    statuses = [one["status"] for one in answer.json()["results"]]
    assert statuses == ["accepted", "refused" if {"consumer", "data"} & set(other) else "accepted", "accepted"]
    assert Event.objects.count() == 3 + statuses.count("accepted")


# ── The database ─────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_session
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


@needs_session
@pytest.mark.parametrize(("path", "body", "count"), [("events/", EVENT, 1), ("events/batch/", BATCH, 2)])
def test_a_connection_that_died_while_it_was_idle_is_replaced_without_a_word(
    path: str, body: dict[str, Any], count: int, known: tuple[Api, ApiKey]
) -> None:
    api, _ = known
    with psycopg.connect(database.conninfo(), **database.session()) as other:
        # Waits until the process is gone.
        other.execute("SELECT pg_terminate_backend(%s, 30000)", [connection.connection.info.backend_pid])
    answer = api.post(path, body)
    assert (answer.status_code, Event.objects.count()) == (202, 3 + count)
    # Only the view says what is allowed.
    assert "Allow" not in answer
