"""The plans behind claim, settle and sweep: what a dead endpoint is owed costs the others nothing, however much it is.

Everything happens in one transaction that is rolled back, on a table with many deliveries of one endpoint.
"""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.db import connection
from psycopg import sql

from deliveries import claim, settle, sweep
from deliveries.accepting import insert
from deliveries.health import lifecycle
from deliveries.models import Delivery
from subscriptions import endpoints, ids, keys
from subscriptions.models import ApiKey, Consumer, Role
from tests.walk import accept, new_endpoint, pass_time

pytestmark = pytest.mark.django_db

STORE_PARKED_EVENTS = """
    INSERT INTO deliveries_event (id, consumer_id, type, api_version, body, created_at, delivery_count)
    SELECT webhooks_uuid7(), %(consumer_id)s, 'parked', '1', '{}', now(), 1 FROM generate_series(1, %(count)s)
"""
STORE_PARKED_DELIVERIES = """
    INSERT INTO deliveries_delivery (
        id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked,
        finished_at
    )
    SELECT webhooks_uuid7(), id, %(endpoint_id)s, %(state)s::text, now() - interval '1 hour', 0, 0, now(), now(), false,
        CASE WHEN %(state)s::text = 'delivered' THEN now() END
    FROM deliveries_event WHERE type = 'parked'
"""

STORE_STRANGERS = """
    WITH stranger AS (
        INSERT INTO subscriptions_consumer
        SELECT (jsonb_populate_record(known, jsonb_build_object('id', webhooks_uuid7(), 'uid', number))).*
        FROM generate_series(1, %(count)s) AS number CROSS JOIN subscriptions_consumer known
        RETURNING id
    )
    INSERT INTO subscriptions_endpoint
    SELECT (jsonb_populate_record(known, jsonb_build_object('id', webhooks_uuid7(), 'consumer_id', stranger.id))).*
    FROM stranger CROSS JOIN subscriptions_endpoint known
"""


def test_a_huge_parked_backlog_is_touched_by_no_statement_of_the_hot_path(acme: Consumer) -> None:
    dead = new_endpoint(acme, event_types=["parked"])
    healthy = [new_endpoint(acme) for _ in range(40)]
    accept(acme, 5)
    endpoints.pause(dead)
    pass_time(minutes=1)  # to SQL, all of this test happens at the moment at which its transaction began
    _store_parked(acme, dead.id, count=200_000)
    lanes = ",".join(str(endpoint.id) for endpoint in healthy)
    run("SELECT set_config('webhooks.lanes', %(lanes)s, true)", lanes=lanes)

    for mode in ("force_custom_plan", "force_generic_plan"):
        run(f"SET LOCAL plan_cache_mode = {mode}")
        claimed = explained(claim.CLAIM_DUE, lease_id=ids.new_uuid(), share=2, limit=1000)
        assert rows(claimed) == 80
        assert problems(claimed, index="delivery_due", buffers_per_row=60) == []
        # As part of a filter it would be read for every endpoint there is.
        assert not any("string_to_array" in node.get("Filter", "") for node in nodes(claimed))

        due = explained(sweep.FIND_DUE_ENDPOINTS, limit=1000)
        assert rows(due) == 40
        assert problems(due, index="delivery_due", buffers_per_row=50) == []

        in_flight = list(Delivery.objects.filter(state="in_flight"))
        settled = explained(settle.SETTLE, **outcomes(in_flight))
        assert rows(settled) == 80
        assert problems(settled, index="deliveries_delivery_pkey", buffers_per_row=60) == []

    buried = explained(lifecycle.BURY, endpoint_id=healthy[0].id, limit=1000)
    assert Delivery.objects.filter(dead_reason="endpoint_deleted").count() == 1
    assert problems(buried, index="delivery_due", buffers_per_row=300, changed=1) == []


@pytest.mark.parametrize("analyzed", ["before the claim", "after the claim"])
def test_a_settlement_finds_its_rows_among_the_finished_without_comparing_each_with_each(
    acme: Consumer, analyzed: str
) -> None:
    """Regression: told what is in flight, PostgreSQL expected one row and compared each with each.

    It did so by what statistics said, and they differ with what an autovacuum happens to see.
    """
    gone = new_endpoint(acme, event_types=["parked"])
    healthy = [new_endpoint(acme) for _ in range(30)]
    accept(acme, 10)
    pass_time(minutes=1)
    _store_parked(acme, gone.id, count=50_000, state="delivered")
    lanes = ",".join(str(endpoint.id) for endpoint in healthy)
    run("SELECT set_config('webhooks.lanes', %(lanes)s, true)", lanes=lanes)
    assert rows(explained(claim.CLAIM_DUE, lease_id=ids.new_uuid(), share=10, limit=1000)) == 300
    if analyzed == "after the claim":
        run("ANALYZE deliveries_delivery")
    in_flight = list(Delivery.objects.filter(state="in_flight"))

    for mode in ("force_custom_plan", "force_generic_plan"):
        run(f"SET LOCAL plan_cache_mode = {mode}")
        run("SAVEPOINT before")
        settled = explained(settle.SETTLE, **outcomes(in_flight))
        run("ROLLBACK TO SAVEPOINT before")
        assert rows(settled) == 300
        assert problems(settled, index="deliveries_delivery_pkey", buffers_per_row=60) == []
        # What others have in flight is none of its business, and may be a lot.
        assert "delivery_in_flight" not in {node.get("Index Name") for node in nodes(settled)}


@pytest.mark.parametrize("statement", ["PLAIN", "ANY"])
def test_consumers_and_who_wants_an_event_are_looked_up_however_many_there_are(statement: str, acme: Consumer) -> None:
    """Also by a plan that is kept, which does not know how many there are."""
    new_endpoint(acme)
    key, _ = keys.issue(role=Role.PRODUCER)
    accept(acme)  # from now on the type is in use
    run(STORE_STRANGERS, count=5_000)
    run("ANALYZE subscriptions_consumer, subscriptions_endpoint")
    event_id = ids.new_uuid()

    stored = explained_store(statement, [(event_id, acme, 0)], types=["invoice.paid"], key=key)

    assert Delivery.objects.filter(event_id=event_id).count() == 1
    found = list(nodes(stored))
    many = {"subscriptions_endpoint", "subscriptions_consumer"}
    asked = {(node.get("Relation Name"), node["Node Type"]) for node in found}
    assert {one for one in asked if one[0] in many} == {(name, "Index Scan") for name in many}
    # Kinds with their events and deliveries, of which there may be a thousand each.
    assert sum(node.get("Join Type") == "Full" for node in found) == (2 if "PLAIN" in statement else 3)


@pytest.mark.parametrize("statement", ["PLAIN", "ANY"])
def test_a_batch_of_many_kinds_and_labels_compares_none_of_them_with_each(statement: str, acme: Consumer) -> None:
    """By a plan that is kept, which does not know how many there are."""
    new_endpoint(acme)
    key, _ = keys.issue(role=Role.PRODUCER)
    run(STORE_STRANGERS, count=500)
    types = [f"type.{number}" for number in range(100)]
    run(
        "INSERT INTO subscriptions_eventtype (name, description, used_at) SELECT unnest(%(types)s::text[]), '', now()",
        types=types,
    )
    run("ANALYZE subscriptions_consumer, subscriptions_endpoint, subscriptions_eventtype, subscriptions_apikey")
    each = [(ids.new_uuid(), consumer, label) for consumer in Consumer.objects.all()[:10] for label in range(100)]

    stored = explained_store(statement, each, types=types, key=key)

    assert Delivery.objects.count() == 1000
    assert compared_in_vain(stored) < 10_000


def explained_store(
    statement: str, events: list[tuple[UUID, Consumer, int]], *, types: list[str], key: ApiKey
) -> dict[str, Any]:
    """The plan that is kept, for events that are each of a kind of their own: a consumer and the number of a type."""
    event_ids, consumers, numbers = (list(column) for column in zip(*events, strict=True))
    labels = [
        {"label": number, "type": type, "patterns": f"{type} *", "api_version": "1", "key_id": key.id}
        for number, type in enumerate(types)
    ]
    run("SET LOCAL plan_cache_mode = force_generic_plan")
    return explained(
        getattr(insert, f"STORE_{statement}"),
        kinds=list(range(1, len(events) + 1)),
        ids=event_ids,
        bodies=[b"{}"] * len(events),
        created_ats=[consumer.created_at for consumer in consumers],
        **{name: [] for name in ("occurred_ats", "traceparents", "producer_ids", "ordering_keys", "sequences")},
        kind_labels=numbers,
        consumer_ids=[consumer.id for consumer in consumers],
        consumer_uids=[consumer.uid for consumer in consumers],
        labels=orjson.dumps(labels).decode(),
        first_wait=0,
        **insert.counting_on(ids.new_uuid()),
    )


def _store_parked(consumer: Consumer, endpoint_id: Any, *, count: int, state: str = "pending") -> None:
    # The rows are right by construction; checking each reference again would take longer than all the rest.
    run("SET LOCAL session_replication_role = replica")
    run(STORE_PARKED_EVENTS, consumer_id=consumer.id, count=count)
    run(STORE_PARKED_DELIVERIES, endpoint_id=endpoint_id, state=state)
    run("SET LOCAL session_replication_role = origin")
    run("ANALYZE deliveries_event, deliveries_delivery, subscriptions_endpoint, subscriptions_lane")


def run(statement: str, **parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)


def explained(statement: str, **parameters: Any) -> dict[str, Any]:
    """The plan as it ran, of the statement prepared as the pump prepares it."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    numbered = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement)
    arguments = sql.SQL(", ").join(sql.Literal(parameters[name]) for name in names)
    given = sql.SQL("({})").format(arguments) if names else sql.SQL("")
    execute = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained {}").format(given)
    with connection.cursor() as cursor:
        cursor.execute(f"PREPARE explained AS {numbered}")
        try:
            cursor.execute(execute.as_string(cursor.connection))
            [[document]] = cursor.fetchall()
        finally:
            cursor.execute("DEALLOCATE explained")
    [plan] = orjson.loads(document) if isinstance(document, str) else document
    return dict(plan["Plan"])


def problems(plan: dict[str, Any], *, index: str, buffers_per_row: int, changed: int | None = None) -> list[str]:
    """What is wrong with a plan that returned rows, or changed so many without returning any."""
    count = rows(plan) if changed is None else changed
    every = list(nodes(plan))
    read = [node for node in every if node.get("Relation Name") == "deliveries_delivery"]
    found = [f"{node['Node Type']} reads the table whole" for node in read if node["Node Type"] == "Seq Scan"]
    found += [f"{node['Node Type']} reads {_read(node)} rows" for node in read if _read(node) > 10 * count]
    if index not in {node.get("Index Name") for node in every}:
        found.append(f"{index} is not used")
    # A few hundred rows that are each compared with each other are a hundred thousand comparisons.
    if (in_vain := compared_in_vain(plan)) > 100 * count:
        found.append(f"{in_vain:.0f} rows compared in vain")
    buffers = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    if buffers > buffers_per_row * count:
        found.append(f"{buffers} buffers for {count} rows")
    return found


def compared_in_vain(plan: dict[str, Any]) -> float:
    return float(sum(node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes(plan)))


def rows(plan: dict[str, Any]) -> int:
    return int(plan["Actual Rows"])


def _read(node: dict[str, Any]) -> float:
    return float((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def outcomes(deliveries: list[Delivery]) -> dict[str, Any]:
    rows = [
        {
            "delivery_id": delivery.id,
            "number": delivery.attempt_count,
            "state": "delivered",
            "wait": 0.0,
            "attempt_id": ids.new_uuid(),
            "started_at": delivery.created_at,
            "duration_ms": 5,
            "url": "https://receiver.test/",
            "status_code": 200,
            "request_headers": [],
            "response_body": b"ok".hex(),
        }
        for delivery in deliveries
    ]
    return {"outcomes": orjson.dumps(rows).decode(), "delivery_ids": [delivery.id for delivery in deliveries]}
