"""Part of accept: the one statement that stores events and what is owed for them.

What it writes, in one go, is in the templates below:

1. `label`: a type in one version with its schema, and the API key that events of it came with. Looked at again: is the
   key still valid, the type in use and not archived, the schema the one that the data was checked against?
2. `kind`: a label for one consumer. Looked at again: does the consumer live, under this uid? Kinds and labels are sent
   and looked up once, however many events are of them. What is no longer true is skipped: its events are stale.
3. `wanted`: the endpoints that want a kind; `counted`: how many they are, or none.
4. `stored`: the events, with their number of deliveries.
5. `owed`: a delivery for each endpoint that wants an event. There are two cases:
   a. Plain events have neither a producer's id nor an ordering key. All of a kind are stored or none, so an answer for
      each kind is enough (STORE_PLAIN).
   b. Of other events, one whose producer id is taken is skipped, and a delivery to an ordered endpoint is blocked while
      an earlier one of its key is under way. So there is an answer for each event (STORE_ANY).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection

from deliveries.sql import arrays
from deliveries.sql.arrays import Array
from deliveries.sql.compact import compact
from subscriptions import ids
from subscriptions.event_types import patterns_for

_KINDS = """
    label AS MATERIALIZED (
        SELECT label.*
        FROM json_to_recordset(%(labels)s::json) AS label (
            label int, type text, patterns text, api_version text, key_id uuid, schema_hash text
        )
        JOIN subscriptions_eventtype event_type
            ON event_type.name = label.type AND archived_at IS NULL AND used_at IS NOT NULL
        LEFT JOIN subscriptions_apikey key
            ON key.id = label.key_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
        LEFT JOIN subscriptions_eventtypeversion version
            ON version.event_type_id = label.type AND version.api_version = label.api_version
            AND schema IS NOT NULL
        WHERE md5(schema::text) IS NOT DISTINCT FROM label.schema_hash
            -- Our own events come without a key.
            AND key.id IS NOT DISTINCT FROM label.key_id
    ), kind AS MATERIALIZED (
        SELECT kind, consumer_id, type, patterns, api_version
        FROM unnest(%(kind_labels)s::int[], %(consumer_ids)s::uuid[], %(consumer_uids)s::text[])
            WITH ORDINALITY AS kind (label, consumer_id, consumer_uid, kind)
        JOIN label USING (label)
        JOIN subscriptions_consumer consumer
            ON consumer.id = kind.consumer_id AND consumer.deleted_at IS NULL
            AND consumer.uid IS NOT DISTINCT FROM kind.consumer_uid
    )
"""
_EVENTS = """
    WITH {kinds}, wanted AS (
        SELECT kind, consumer_id, type, api_version, endpoint_id, ordered,
            coalesce(retry_schedule[1], %(first_wait)s) * interval '1 second' AS wait
        FROM kind LEFT JOIN LATERAL (
            SELECT id AS endpoint_id, ordered, retry_schedule
            FROM subscriptions_endpoint
            WHERE consumer_id = kind.consumer_id AND deleted_at IS NULL
                AND event_types::text[] && string_to_array(kind.patterns, ' ')
            -- Looked up for each kind, and never by reading all endpoints there are.
            OFFSET 0
        ) endpoint ON true
    ), counted AS (
        SELECT kind, consumer_id, type, api_version, count(endpoint_id) AS delivery_count {more_counts}
        FROM wanted
        GROUP BY kind, consumer_id, type, api_version
    ), stored AS (
        INSERT INTO deliveries_event (
            id, consumer_id, type, api_version, body, created_at, occurred_at, traceparent, delivery_count, xid
            {more_columns}
        )
        SELECT event.id, consumer_id, type, api_version, body, created_at, occurred_at, traceparent, delivery_count,
            -- The column's default, worked out once for all of them.
            (SELECT webhooks_feed_xid(pg_current_xact_id()))
            {more_columns}
        FROM unnest(
            %(kinds)s::int[], %(ids)s::uuid[], %(bodies)s::bytea[], %(created_ats)s::timestamptz[],
            %(occurred_ats)s::timestamptz[], %(traceparents)s::text[] {more_arrays}
        ) AS event (kind, id, body, created_at, occurred_at, traceparent {more_columns})
        -- Nobody knows how many there are of either, and a plan made for few compares each with each. A full join
        -- cannot, and `num_nulls` leaves it full.
        FULL JOIN counted USING (kind)
        WHERE num_nulls(event.id, consumer_id) = 0
"""
_TALLIED = """
    ), tallied AS (
        INSERT INTO deliveries_delta (counter, subject_id, count)
        SELECT 'accepted', consumer_id, count(*) FROM stored GROUP BY consumer_id
"""
# PostgreSQL's own uuidv7() asks for fresh randomness each time, which takes longer than the rest of the row.
_DELIVERY_ID = "(%(id_start)s || lpad(to_hex(%(id_end)s + row_number() OVER ()), 12, '0'))::uuid"
_DELIVERIES_OF_PLAIN = """
        RETURNING consumer_id
    {tallied}
    ), owed AS (
        INSERT INTO deliveries_delivery (
            id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked
        )
        SELECT {delivery_id}, event.id, endpoint_id, 'pending', now() + wait, 0, 0, now(), created_at, false
        -- The arrays once more, without the bodies.
        FROM unnest(%(kinds)s::int[], %(ids)s::uuid[], %(created_ats)s::timestamptz[]) AS event (kind, id, created_at)
        FULL JOIN wanted USING (kind)
        WHERE num_nulls(event.id, endpoint_id) = 0
    )
    SELECT kind, NULL::uuid, delivery_count, ready FROM counted
"""
_DELIVERIES_OF_ANY = """
        -- Each waits for who takes its producer id at the same moment: in one order, or two batches deadlock.
        ORDER BY consumer_id, producer_id
        ON CONFLICT (consumer_id, producer_id) WHERE producer_id IS NOT NULL DO NOTHING
        RETURNING id, delivery_count, consumer_id
    {tallied}
    ), matched AS (
        SELECT id AS event_id, created_at, endpoint_id, wait,
            CASE WHEN ordered THEN ordering_key END AS ordering_key, CASE WHEN ordered THEN sequence END AS sequence
        FROM unnest(
            %(kinds)s::int[], %(ids)s::uuid[], %(created_ats)s::timestamptz[], %(ordering_keys)s::text[],
            %(sequences)s::bigint[]
        ) AS event (kind, id, created_at, ordering_key, sequence)
        FULL JOIN stored USING (id) FULL JOIN wanted USING (kind)
        WHERE num_nulls(event.id, stored.id, endpoint_id) = 0
    ), owed AS (
        INSERT INTO deliveries_delivery (
            id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at,
            ordering_key, sequence, blocked
        )
        SELECT {delivery_id}, event_id, endpoint_id, 'pending', now() + wait, 0, 0, now(), created_at, ordering_key,
            sequence,
            ordering_key IS NOT NULL AND (
                row_number() OVER (PARTITION BY endpoint_id, ordering_key ORDER BY sequence) > 1
                OR EXISTS (
                    SELECT FROM deliveries_delivery earlier
                    WHERE earlier.endpoint_id = matched.endpoint_id AND earlier.ordering_key = matched.ordering_key
                        AND state IN ('pending', 'in_flight') AND NOT blocked
                )
            )
        FROM matched
        RETURNING endpoint_id
    )
    SELECT kind, NULL::uuid, NULL, NULL FROM counted
    UNION ALL
    SELECT NULL, id, delivery_count, NULL FROM stored
    UNION ALL
    SELECT NULL, NULL, NULL, string_agg(DISTINCT encode(uuid_send(endpoint_id), 'hex'), ' ') FROM owed
"""
_PARTS_OF_PLAIN = {
    # Endpoints as the bell writes them.
    "more_counts": ", string_agg(encode(uuid_send(endpoint_id), 'hex'), ' ') AS ready",
    "more_columns": "",
    "more_arrays": "",
    "tallied": _TALLIED,
}
_PARTS_OF_ANY = {
    "more_counts": "",
    "more_columns": ", producer_id, ordering_key, sequence",
    "more_arrays": ", %(producer_ids)s::text[], %(ordering_keys)s::text[], %(sequences)s::bigint[]",
    "tallied": _TALLIED,
}


STORE_PLAIN = compact(
    (_EVENTS + _DELIVERIES_OF_PLAIN).format(kinds=_KINDS, delivery_id=_DELIVERY_ID, **_PARTS_OF_PLAIN)
)
"""Stores plain events and a delivery for each endpoint that wants them. Answers with the kinds that are still true."""

STORE_ANY = compact((_EVENTS + _DELIVERIES_OF_ANY).format(kinds=_KINDS, delivery_id=_DELIVERY_ID, **_PARTS_OF_ANY))
"""Stores any events. Answers with the kinds that are still true, and with the events that were stored."""


@dataclass(slots=True)
class Stored:
    """An event as it was accepted: what an answer and the log tell of it, without a model's weight."""

    id: UUID
    public_id: str
    consumer_id: UUID
    type: str
    api_version: str
    producer_id: str | None
    body: bytes
    created_at: datetime
    occurred_at: datetime | None
    ordering_key: str | None
    sequence: int | None
    traceparent: str | None
    # Known once it is stored.
    delivery_count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class EventKind:
    """A consumer and an event type in one version, as they were when they were looked up. Compared by identity."""

    consumer_id: UUID
    consumer_uid: str | None
    type: str
    api_version: str
    # None where the type has no schema.
    schema_hash: str | None


# The kind of an event, and the id of the API key that it came with.
KindAndKey = tuple[EventKind, str | None]
T = TypeVar("T")


class StoreResult(NamedTuple):
    """By their places among the events given to `store`; all others were stored."""

    # What was looked up for them is no longer true.
    stale: set[int]
    # Their producer ids are taken.
    taken: set[int]
    # The endpoints that have new work, as the bell writes them.
    ready: set[str]


def store(events: Sequence[Stored], kinds: Sequence[KindAndKey]) -> StoreResult:
    """Stores what may be stored, with its deliveries, and sets the `delivery_count` of each event that was."""
    is_plain = all(event.producer_id is None and event.ordering_key is None for event in events)
    # Counted from one, as WITH ORDINALITY does.
    numbers: dict[KindAndKey, int] = {}
    kind_numbers = [numbers.setdefault(kind, len(numbers) + 1) for kind in kinds]
    parameters: dict[str, Any] = {
        "kinds": arrays.ints(kind_numbers),
        **_columns(events),
        **({} if is_plain else _more_columns(events)),
        **_kind_columns(list(numbers)),
        "first_wait": settings.DELIVERY_RETRY_SCHEDULE[0],
        **counting_on(ids.new_uuid()),
    }
    with connection.cursor() as cursor:
        cursor.execute(STORE_PLAIN if is_plain else STORE_ANY, parameters)
        rows = cursor.fetchall()
    # Here the statement's counts are known: deliveries by kind of plain events, by event of any others.
    by_kind = {kind: count for kind, _, count, _ in rows if kind is not None}
    by_event = {event_id: count for _, event_id, count, _ in rows if event_id is not None}
    # A set, since two types of one consumer may name the same endpoint.
    result = StoreResult(set(), set(), set(" ".join([ready for *_, ready in rows if ready]).split()))
    for place, (event, kind) in enumerate(zip(events, kind_numbers, strict=True)):
        count = by_kind.get(kind) if is_plain else by_event.get(event.id)
        if count is not None:
            event.delivery_count = count
        else:
            (result.taken if kind in by_kind else result.stale).add(place)
    return result


def counting_on(first: UUID) -> dict[str, Any]:
    """The id from which those of one statement's deliveries count on. Half of its last part leaves room for them."""
    start, end = divmod(first.int, 1 << 48)
    return {"id_start": f"{start:020x}", "id_end": end >> 1}


def _kind_columns(kinds: Sequence[KindAndKey]) -> dict[str, Any]:
    labels: dict[tuple[str, str, str | None, str | None], int] = {}
    numbers = [
        labels.setdefault((kind.type, kind.api_version, kind.schema_hash, key_id), len(labels))
        for kind, key_id in kinds
    ]
    rows = [
        {
            "label": number,
            "type": type,
            "patterns": _patterns(type),
            "api_version": api_version,
            "key_id": key_id,
            "schema_hash": schema_hash,
        }
        for (type, api_version, schema_hash, key_id), number in labels.items()
    ]
    return {
        "kind_labels": arrays.ints(numbers),
        "consumer_ids": arrays.uuids([kind.consumer_id for kind, _ in kinds]),
        "consumer_uids": arrays.texts([kind.consumer_uid for kind, _ in kinds]),
        # One or a few.
        "labels": orjson.dumps(rows).decode(),
    }


@lru_cache(maxsize=4096)
def _patterns(type: str) -> str:
    return " ".join(patterns_for(type))


def _columns(events: Sequence[Stored]) -> dict[str, Array]:
    return {
        "ids": arrays.uuids([event.id for event in events]),
        "bodies": arrays.byte_strings([event.body for event in events]),
        "created_ats": arrays.times([event.created_at for event in events]),
        "occurred_ats": _if_any(arrays.times, [event.occurred_at for event in events]),
        "traceparents": _if_any(arrays.texts, [event.traceparent for event in events]),
    }


def _more_columns(events: Sequence[Stored]) -> dict[str, Array]:
    return {
        "producer_ids": _if_any(arrays.texts, [event.producer_id for event in events]),
        "ordering_keys": _if_any(arrays.texts, [event.ordering_key for event in events]),
        "sequences": _if_any(arrays.bigints, [event.sequence for event in events]),
    }


def _if_any(write: Callable[[list[T | None]], Array], values: list[T | None]) -> Array:
    """Beside longer arrays, an empty one is all nulls."""
    return write([] if values.count(None) == len(values) else values)
