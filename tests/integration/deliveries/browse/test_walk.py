"""Bounded lists: pages in a window, where they stop, and plans that touch no more than the window.

The plans are looked at with 30,000 deliveries made by one statement, and vacuumed, as autovacuum leaves them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from deliveries.browse.causes import causes, reasons
from deliveries.browse.events import EventFilter, events_by_producer_id, walk_events
from deliveries.browse.filter import Filter
from deliveries.browse.matched import matched
from deliveries.browse.walk import walk, walk_many
from deliveries.models import Delivery
from subscriptions import consumers, endpoints
from subscriptions.models import Consumer
from tests.conftest import Api
from tests.console import dead_letters
from tests.integration.deliveries.test_query_plans import explained, nodes, run
from tests.walk import accept, new_endpoint

COUNT = 30_000

STORE_EVENTS = """
    INSERT INTO deliveries_event (id, consumer_id, type, api_version, body, created_at, delivery_count)
    SELECT webhooks_uuid7(), (%(consumers)s::uuid[])[1 + mod(n, 20)],
        CASE WHEN mod(n, 1000) = 500 THEN 'rare' ELSE 'common' END, '1', '{}', now(), 1
    FROM generate_series(1, %(count)s) n
"""
STORE_DEAD = """
    INSERT INTO deliveries_delivery (
        id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked,
        finished_at, dead_reason
    )
    SELECT webhooks_uuid7(), event.id, endpoint.id, 'dead', now(), 1, 0, now(), now(), false, now(),
        CASE WHEN random() < 0.001 THEN 'given_up' ELSE 'attempts_exhausted' END
    FROM deliveries_event event JOIN subscriptions_endpoint endpoint USING (consumer_id) ORDER BY event.id
"""
STORE_ATTEMPTS = """
    INSERT INTO deliveries_attempt (id, delivery_id, number, started_at, duration_ms, url, error_kind, request_headers)
    SELECT webhooks_uuid7(), id, 1, now(), 5, 'https://receiver.test/', 'http_503', '[]' FROM deliveries_delivery
"""
INDEXES = {
    "delivery_dead", "delivery_dead_of_endpoint", "delivery_dead_for_reason", "delivery_dead_by_reason",
    "delivery_in_flight", "delivery_once_per_endpoint", "deliveries_delivery_pkey",
}  # fmt: skip


def many(of: int = 20) -> list[Consumer]:
    """Consumers with one endpoint each and COUNT dead letters between them."""
    made = [consumers.create(uid=f"many-{number}") for number in range(of)]
    for consumer in made:
        endpoints.create(consumer=consumer, url="https://receiver.test/")
    run(STORE_EVENTS, consumers=[consumer.id for consumer in made], count=COUNT)
    run(STORE_DEAD)
    run(STORE_ATTEMPTS)
    run("VACUUM ANALYZE deliveries_event, deliveries_delivery, deliveries_attempt, subscriptions_endpoint")
    return made


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """What is asked of the database meanwhile, with its parameters still apart."""
    asked: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield asked


@pytest.mark.django_db(transaction=True)
def test_no_filter_reads_more_than_its_window() -> None:
    made = many()
    endpoint = made[3].endpoints.get()
    event = Delivery.objects.filter(endpoint=endpoint).order_by("-id")[0].event
    now = datetime.now(UTC)
    filters = {
        "all": Filter(),
        "endpoint": Filter(endpoint_id=endpoint.id),
        "endpoint, pending": Filter(state="pending", endpoint_id=endpoint.id),
        "endpoint and reason": Filter(endpoint_id=endpoint.id, dead_reason="given_up"),
        "consumer": Filter(consumer_id=made[4].id),
        "consumer, any state": Filter(state=None, consumer_id=made[4].id),
        "reason": Filter(dead_reason="given_up"),
        "type": Filter(event_type="rare"),
        "answer": Filter(error_kind="http_418"),
        "consumer and type": Filter(consumer_id=made[4].id, event_type="rare"),
        "event": Filter(event_id=event.id),
        "time": Filter(since=now - timedelta(hours=2), until=now - timedelta(hours=1)),
        "in flight": Filter(state="in_flight"),
    }
    wrong = []
    for name, wanted in filters.items():
        with statements() as asked:
            walk(wanted, size=50, window=1000)
            matched(wanted, window=1000)
        wrong += [f"{name} {problem}" for problem in problems_of(asked)]
    assert wrong == []


@pytest.mark.django_db(transaction=True)
def test_no_list_of_events_reads_more_than_its_window() -> None:
    made = many()
    quiet = consumers.create(uid="quiet")
    now = datetime.now(UTC)
    since, until = now - timedelta(hours=2), now + timedelta(hours=2)
    filters = {
        "all": EventFilter(),
        "all but deleted consumers'": EventFilter(of_deleted_consumers=False),
        "type": EventFilter(type="none"),
        "key": EventFilter(ordering_key="none"),
        "state": EventFilter(state="delivered"),
        "time": EventFilter(since=since, until=until),
        "long ago": EventFilter(until=now - timedelta(days=1)),
        "consumer": EventFilter(consumer_id=made[4].id),
        "quiet consumer": EventFilter(consumer_id=quiet.id),
        "consumer and type": EventFilter(consumer_id=made[4].id, type="none"),
        "consumer and key": EventFilter(consumer_id=made[4].id, ordering_key="none"),
        "consumer and state": EventFilter(consumer_id=made[4].id, state="delivered"),
        "consumer and time": EventFilter(consumer_id=made[4].id, since=since, until=until),
    }
    wrong = []
    for name, wanted in filters.items():
        with statements() as asked:
            found = walk_events(wanted, size=50, window=300)
            if found.following:
                walk_events(wanted, size=50, window=300, after=found.following)
        wrong += [f"{name} {problem}" for problem in problems_of(asked)]
    with statements() as asked:
        events_by_producer_id("none", of_deleted_consumers=False)
    assert wrong + problems_of(asked) == []


def problems_of(asked: list[tuple[str, Any]]) -> list[str]:
    """What is wrong with the plans of these statements, made for their parameters and for any."""
    wrong = []
    for mode in ("force_custom_plan", "force_generic_plan"):
        with transaction.atomic():
            run(f"SET LOCAL plan_cache_mode = {mode}")
            for sql, given in [each for each in asked if isinstance(each[1], dict)]:
                wrong += [f"({mode}): {problem}" for problem in problems(explained(sql, **given))]
    return wrong


def problems(plan: dict[str, Any]) -> list[str]:
    """Whole tables read, other indexes than the ones that are meant, more rows than a window's worth."""
    found = []
    for node in nodes(plan):
        table, index = node.get("Relation Name"), node.get("Index Name")
        if table in ("deliveries_delivery", "deliveries_event", "deliveries_attempt") and node["Actual Loops"]:
            rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            if node["Node Type"] in ("Seq Scan", "Bitmap Heap Scan") and rows > 0:
                found.append(f"{node['Node Type']} on {table}")
            if rows > 2500:
                found.append(f"{rows:.0f} rows of {table} by {index}")
            if table == "deliveries_delivery" and index and index not in INDEXES:
                found.append(f"{index} is not meant for this")
    return found


@pytest.mark.django_db(transaction=True)
def test_a_window_ends_and_says_where(acme: Consumer) -> None:
    made = many(of=20)
    found = walk(Filter(event_type="rare"), size=50, window=3000)
    assert (len(found.rows), found.looked_at) == (3, 3000)
    assert found.following is not None
    further = walk(Filter(event_type="rare"), size=50, window=3000, after=found.following)
    assert len(further.rows) == 3
    assert {row.id for row in found.rows}.isdisjoint(row.id for row in further.rows)
    # A shell goes on by itself.
    assert len(walk_many(Filter(event_type="rare"), limit=100, window=3000)) == COUNT // 1000
    assert (matched(Filter(event_type="rare"), window=3000).count, matched(Filter(), window=3000).is_more) == (3, True)
    exact = matched(Filter(consumer_id=made[0].id))
    assert (exact.count, exact.is_more) == (COUNT // 20, False)
    assert dict(reasons())["attempts_exhausted"] == 10_000
    grouped = causes(Filter())
    assert (grouped.total, grouped.looked_at, len(grouped.groups)) == (COUNT, None, 20)
    events = walk_events(EventFilter(consumer_id=made[0].id, type="rare"), size=10)
    assert (len(events.rows), events.following is not None) == (10, True)


@pytest.mark.django_db(transaction=True)
def test_every_delivery_of_a_consumer_is_listed_once_whatever_its_endpoint(acme: Consumer, acme_api: Api) -> None:
    for _ in range(3):
        new_endpoint(acme)
    accept(acme, 7)
    dead, _ = dead_letters(acme, 2)
    seen: list[str] = []
    path: str | None = "deliveries/"
    query = {"limit": "4"}
    while path:
        answer = acme_api.get(path, **query).json()
        seen += [row["id"] for row in answer["results"]]
        path, query = (answer["next"] or "").partition("/api/v1/")[2] or None, {}
    assert len(seen) == len(set(seen)) == Delivery.objects.count() == 3 * 7 + 4 * 2
    listed = acme_api.get(f"endpoints/{dead.public_id}/deliveries/", state="dead").json()["results"]
    assert [row["state"] for row in listed] == ["dead", "dead"]
