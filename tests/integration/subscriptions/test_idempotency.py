"""subscriptions/idempotency.py through the API: every POST that writes happens once per Idempotency-Key."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import redis
from django.db import connection, transaction

from deliveries import replay
from deliveries.models import Delivery, Event
from subscriptions import consumers, endpoints, idempotency, keys
from subscriptions.models import ApiKey, Consumer, Endpoint, IdempotencyRecord, Role
from tests.conftest import Api, PumpRunner
from tests.ledger import ledger
from tests.local import wait_until
from tests.routes import SEND_AT_ONCE, Route, call_name, calls

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}
KEY = {"Idempotency-Key": "order-17"}

EVERY_POST = [route for route, _ in calls("POST") if route.name not in SEND_AT_ONCE]


@pytest.fixture(autouse=True)
def _no_hints_from_other_tests(redis_client: "redis.Redis") -> None: ...


@pytest.fixture
def things(acme: Consumer, producer: Api, pump: PumpRunner) -> dict[str, str]:
    """One of each that a POST may name; the delivery is finished, so that it can be replayed."""
    endpoint, _ = endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    assert producer.post("events/", EVENT).status_code == 202
    assert pump.run(transport=httpx.MockTransport(lambda request: httpx.Response(204))) == 1
    job = replay.start(replay.Filter(), consumer=acme, rate_per_second=1, requested_by="acme")
    return {
        "consumer": "acme",
        "endpoint": endpoint.public_id,
        "delivery": Delivery.objects.get().public_id,
        "replay": job.public_id,
        "key": keys.issue(role=Role.CONSUMER, consumer=acme)[0].public_id,
    }


@pytest.mark.parametrize("route", EVERY_POST, ids=call_name)
def test_the_same_key_and_body_get_the_stored_answer_and_do_nothing_again(
    route: Route, operator: Api, things: dict[str, str], redis_client: "redis.Redis"
) -> None:
    path, body = route.path(things), route.good_body("POST")
    first = operator.post(path, body, headers=KEY)
    before = ledger()

    again = operator.post(path.rstrip("/"), body, headers=KEY)
    redis_client.flushdb()
    without_the_hint = operator.post(path, body, headers=KEY)

    assert first.status_code in (200, 201, 202), first.content
    assert "Idempotent-Replayed" not in first
    for later in (again, without_the_hint):
        assert (later.status_code, later.content) == (first.status_code, first.content)
        assert later["Idempotent-Replayed"] == "true"
        assert later["Content-Type"] == "application/json"
    assert ledger() == before


# By route: fields of another value than in its good body.
OTHERWISE: dict[str, dict[str, Any]] = {
    "consumers": {"name": "Another"},
    "keys": {"name": "another"},
    "endpoints": {"description": "Another"},
    "rotate-secret": {"overlap_seconds": 61},
    "event-types": {"description": "Another"},
    "signature-profiles": {"description": "Another"},
    "events": {"api_version": "2"},
    "event-batch": {"events": [{"consumer": "acme", "type": "invoice.paid", "data": {"amount": 2}}]},
    "replays": {"rate_per_second": 6},
    "key-rotate": {"overlap_seconds": 61},
    **{name: {"why": "another"} for name in ("portal-link", "pause", "resume", "delivery-replay", "replay-cancel")},
}


@pytest.mark.parametrize(
    "route", [route for route in EVERY_POST if route.view and "POST" in route.view.fields], ids=call_name
)
def test_the_same_key_with_another_body_is_refused(
    route: Route, operator: Api, things: dict[str, str], redis_client: "redis.Redis"
) -> None:
    assert route.name in OTHERWISE, f"Say in OTHERWISE what else a POST to {route.template} may send."
    path, body = route.path(things), route.good_body("POST") or {}
    other = {**body, **OTHERWISE[route.name]}
    operator.post(path, body, headers=KEY)
    before = ledger()

    refused = [operator.post(path, other, headers=KEY)]
    redis_client.flushdb()
    refused.append(operator.post(path, other, headers=KEY))

    assert [answer.status_code for answer in refused] == [409, 409]
    assert [answer.json()["code"] for answer in refused] == ["idempotency_key_reused", "idempotency_key_reused"]
    assert ledger() == before


def test_quoted_and_bare_keys_are_the_same_key(producer: Api, acme: Consumer) -> None:
    quoted = producer.post("events/", EVENT, headers={"Idempotency-Key": '"order-17"'})
    bare = producer.post("events/", EVENT, headers={"Idempotency-Key": "order-17"})

    assert bare.content == quoted.content
    assert Event.objects.count() == 1


def test_a_body_that_means_the_same_is_the_same_body(producer: Api, acme: Consumer) -> None:
    first = producer.post("events/", EVENT, headers=KEY)
    again = producer.post("events/", dict(reversed(EVENT.items())), headers=KEY)

    assert again.content == first.content
    assert Event.objects.count() == 1


def test_without_a_key_every_request_counts(producer: Api, acme: Consumer) -> None:
    answers = [producer.post("events/", EVENT) for _ in range(2)]

    assert len({answer.json()["id"] for answer in answers}) == 2
    assert (Event.objects.count(), IdempotencyRecord.objects.count()) == (2, 0)


def test_two_owners_may_use_the_same_key(producer: Api, acme: Consumer) -> None:
    other = Api(keys.issue(role=Role.PRODUCER)[1])

    answers = [producer.post("events/", EVENT, headers=KEY), other.post("events/", EVENT, headers=KEY)]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert Event.objects.count() == 2


def test_an_owner_keeps_its_answers_when_its_api_key_changes(acme: Consumer) -> None:
    old, new = (Api(keys.issue(role=Role.PRODUCER, owner="billing")[1]) for _ in range(2))

    first, again = old.post("events/", EVENT, headers=KEY), new.post("events/", EVENT, headers=KEY)

    assert again.content == first.content
    assert Event.objects.count() == 1


def test_two_routes_may_use_the_same_key(producer: Api, acme: Consumer) -> None:
    answers = [
        producer.post("events/", EVENT, headers=KEY),
        producer.post("events/batch/", {"events": [EVENT]}, headers=KEY),
        producer.post("consumers/acme/keys/", {}, headers=KEY),
    ]

    assert [answer.status_code for answer in answers] == [202, 202, 201]
    assert (Event.objects.count(), IdempotencyRecord.objects.count()) == (2, 3)


def test_two_paths_of_one_route_may_use_the_same_key(producer: Api, acme: Consumer) -> None:
    consumers.create(uid="globex")

    answers = [producer.post(f"consumers/{uid}/keys/", {}, headers=KEY) for uid in ("acme", "globex")]

    assert [answer.status_code for answer in answers] == [201, 201]
    assert ApiKey.objects.filter(consumer__uid="globex").count() == 1


def test_the_longest_uid_leaves_room_for_the_key(producer: Api) -> None:
    consumers.create(uid="a" * 255)

    first, again = (producer.post(f"consumers/{'a' * 255}/keys/", {}, headers=KEY) for _ in range(2))

    assert (first.status_code, again.content) == (201, first.content)


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        ({**EVENT, "data": 5}, 400),
        ({**EVENT, "consumer": "nobody"}, 404),
    ],
    ids=["wrong shape", "unknown consumer"],
)
def test_a_refusal_is_not_stored_and_the_corrected_request_may_use_its_key(
    bad: dict[str, Any], status: int, producer: Api, acme: Consumer
) -> None:
    refused = producer.post("events/", bad, headers=KEY)
    stored_by_refusal = IdempotencyRecord.objects.count()
    corrected = producer.post("events/", EVENT, headers=KEY)

    assert (refused.status_code, stored_by_refusal) == (status, 0)
    # The hint that the refusal left behind in Redis is wrong, and harmless.
    assert (corrected.status_code, corrected.has_header("Idempotent-Replayed")) == (202, False)
    assert Event.objects.count() == 1


def test_a_conflict_is_not_stored_and_goes_away_with_its_cause(producer: Api, acme: Consumer) -> None:
    taken = producer.post("consumers/", {"uid": "acme"}, headers=KEY)
    producer.delete("consumers/acme/")
    free = producer.post("consumers/", {"uid": "acme"}, headers=KEY)

    assert (taken.status_code, taken.json()["code"]) == (409, "uid_taken")
    assert (free.status_code, free.json()["uid"]) == (201, "acme")


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def rows_holding(secret: str) -> int:
    """Rows of any table with this text in any column, bytes included."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        counts = [f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s OR t::text LIKE %s" for table in tables]
        patterns = [f"%{secret}%", f"%{secret.encode().hex()}%"]
        cursor.execute(" UNION ALL ".join(counts), patterns * len(tables))
        return sum(count for (count,) in cursor.fetchall())


@pytest.mark.parametrize(
    ("template", "body", "field"),
    [
        ("consumers/acme/endpoints/", {"url": "http://127.0.0.1:9/"}, "secret"),
        ("endpoints/{endpoint}/rotate-secret/", {}, "secret"),
        ("consumers/acme/keys/", {}, "key"),
    ],
    ids=["create", "rotate", "key"],
)
def test_a_secret_comes_back_with_the_stored_answer_and_is_nowhere_in_plain_text(
    template: str, body: dict[str, Any], field: str, acme_api: Api, acme: Consumer
) -> None:
    endpoint, _ = endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    path = template.format(endpoint=endpoint.public_id)

    first, again = (acme_api.post(path, body, headers=KEY) for _ in range(2))

    secret = first.json()[field]
    assert again.json()[field] == secret
    assert rows_holding(secret) == 0
    # Guards the line above: what is not secret is found.
    assert rows_holding("http://127.0.0.1:9/") == Endpoint.objects.count()


# ── Forgetting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_is_kept_as_long_as_promised_and_then_forgotten(producer: Api, acme: Consumer) -> None:
    first = producer.post("events/", EVENT, headers=KEY)

    assert idempotency.forget_old(hours=72) == 0
    assert producer.post("events/", EVENT, headers=KEY).content == first.content
    assert idempotency.forget_old(hours=0) == 1
    # Redis still hints at an answer that is gone.
    anew = producer.post("events/", EVENT, headers=KEY)

    assert (anew.status_code, anew.has_header("Idempotent-Replayed")) == (202, False)
    assert anew.json()["id"] != first.json()["id"]
    assert Event.objects.count() == 2


def test_whoever_forgets_answers_looks_at_the_oldest_alone(producer: Api, acme: Consumer) -> None:
    """Not at each that is still to be kept, every ten minutes."""
    for number in range(5):
        producer.post("events/", EVENT, headers={"Idempotency-Key": f"order-{number}"})
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(
            "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) " + idempotency.FORGET_ANSWERS,
            {"hours": 72, "limit": 2},
        )
        plan = str(cursor.fetchone())
        cursor.execute("RESET enable_seqscan")
    assert "'Actual Rows': 2" in plan
    assert "'Actual Rows': 5" not in plan
    assert IdempotencyRecord.objects.count() == 5


def test_answers_are_forgotten_in_batches_and_the_rest_goes_with_the_next_run(producer: Api, acme: Consumer) -> None:
    for number in range(5):
        producer.post("events/", EVENT, headers={"Idempotency-Key": f"order-{number}"})

    assert idempotency.forget_old(hours=0, batch=2, batches=2) == 4
    assert IdempotencyRecord.objects.get().key == "order-4"
    assert idempotency.forget_old(hours=0, batch=2, batches=2) == 1


# ── Two requests at the same moment ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def under_way(request: Callable[[], Any], *, until: Callable[[], object]) -> "Iterator[Future[Any]]":
    """The request on a connection of its own, answered but not committed before `until` returns."""
    answered = threading.Event()

    def hold() -> Any:
        try:
            with transaction.atomic():
                answer = request()
                answered.set()
                until()
            return answer
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(hold)
        assert answered.wait(10)
        yield future


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted")
        [count] = cursor.fetchone() or [0]
    return bool(count)


@pytest.fixture
def used_type(producer: Api, acme: Consumer) -> None:
    """An event type that has been used, so that two first uses do not wait for each other."""
    assert producer.post("events/", {**EVENT, "id": "warm-up"}).status_code == 202


def test_a_request_beside_the_one_under_way_waits_for_its_answer(
    producer: Api, used_type: None, redis_client: "redis.Redis"
) -> None:
    with under_way(
        lambda: producer.post("events/", EVENT, headers=KEY), until=lambda: wait_until(somebody_waits)
    ) as first:
        second = producer.post("events/", EVENT, headers=KEY)

    assert second.content == first.result().content
    assert second["Idempotent-Replayed"] == "true"
    assert Event.objects.count() == 2


def test_a_request_beside_one_that_takes_too_long_is_told_so(producer: Api, used_type: None) -> None:
    release = threading.Event()

    with under_way(lambda: producer.post("events/", EVENT, headers=KEY), until=release.wait) as first:
        told = producer.post("events/", EVENT, headers=KEY)
        release.set()
    later = producer.post("events/", EVENT, headers=KEY)

    assert (told.status_code, told.json()["code"]) == (409, "idempotency_in_progress")
    assert told["Retry-After"] == "1"
    assert later.content == first.result().content
    assert Event.objects.count() == 2


def test_a_request_goes_on_when_the_one_under_way_comes_to_nothing(producer: Api, used_type: None) -> None:
    class GivesUp(Exception): ...

    def give_up() -> None:
        wait_until(somebody_waits)
        raise GivesUp

    with under_way(lambda: producer.post("events/", EVENT, headers=KEY), until=give_up) as first:
        second = producer.post("events/", EVENT, headers=KEY)

    assert isinstance(first.exception(), GivesUp)
    assert (second.status_code, second.has_header("Idempotent-Replayed")) == (202, False)
    assert Event.objects.count() == 2
