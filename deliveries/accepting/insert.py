"""Part of accept: the one statement that stores events and what is owed for them.

Events of one consumer, type and version are of one kind. What they share is sent and looked up once per kind: which
endpoints want them, and whether what was believed of the consumer is still true. What kinds share whatever their
consumer is their label: the type, its version and schema, and the key that came with them. It, too, is sent and looked
up once.
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
        SELECT * FROM json_to_recordset(%(labels)s::json) AS label (
            label int, type text, patterns text, api_version text
        )
    ), kind AS MATERIALIZED (
        SELECT kind, consumer_id, type, patterns, api_version
        FROM unnest(%(kind_labels)s::int[], %(consumer_ids)s::uuid[])
            WITH ORDINALITY AS kind (label, consumer_id, kind)
        JOIN label USING (label)
    )
"""
# What `gather` knew a moment ago, looked at again in the very statement that relies on it.
_KINDS_STILL_TRUE = """
    label AS MATERIALIZED (
        SELECT label.*
        FROM json_to_recordset(%(labels)s::json) AS label (
            label int, type text, patterns text, api_version text, key_id uuid, schema_hash text
        )
        JOIN subscriptions_apikey key
            ON key.id = label.key_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
        JOIN subscriptions_eventtype known
            ON known.name = label.type AND archived_at IS NULL AND used_at IS NOT NULL
        LEFT JOIN subscriptions_eventtypeversion version
            ON version.event_type_id = label.type AND version.api_version = label.api_version
            AND schema IS NOT NULL
        WHERE md5(schema::text) IS NOT DISTINCT FROM label.schema_hash
    ), believed AS (
        SELECT kind, consumer_id, type, patterns, api_version
        FROM unnest(%(kind_labels)s::int[], %(consumer_ids)s::uuid[], %(consumer_uids)s::text[])
            WITH ORDINALITY AS kind (label, consumer_id, consumer_uid, kind)
        JOIN label USING (label)
        JOIN subscriptions_consumer consumer
            ON consumer.id = kind.consumer_id AND consumer.deleted_at IS NULL
            AND consumer.uid IS NOT DISTINCT FROM kind.consumer_uid
    ), kind AS (
        SELECT * FROM believed WHERE (SELECT count(*) FROM believed) >= %(at_least)s
    )
"""
_GIVEN = """
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
# PostgreSQL's own uuidv7() asks for fresh randomness each time, which takes longer than the rest of the row.
_DELIVERY_ID = "(%(id_start)s || lpad(to_hex(%(id_end)s + row_number() OVER ()), 12, '0'))::uuid"
_PLAIN = """
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
_NAMED_OR_ORDERED = """
        -- Each waits for who takes its producer id at the same moment: in one order, or two batches deadlock.
        ORDER BY consumer_id, producer_id
        ON CONFLICT (consumer_id, producer_id) WHERE producer_id IS NOT NULL DO NOTHING
        RETURNING id, delivery_count
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
}
_PARTS_OF_ANY = {
    "more_counts": "",
    "more_columns": ", producer_id, ordering_key, sequence",
    "more_arrays": ", %(producer_ids)s::text[], %(ordering_keys)s::text[], %(sequences)s::bigint[]",
}


def _plain(kinds: str) -> str:
    return compact((_GIVEN + _PLAIN).format(kinds=kinds, delivery_id=_DELIVERY_ID, **_PARTS_OF_PLAIN))


def _any(kinds: str) -> str:
    return compact((_GIVEN + _NAMED_OR_ORDERED).format(kinds=kinds, delivery_id=_DELIVERY_ID, **_PARTS_OF_ANY))


STORE_PLAIN = _plain(_KINDS)
"""Stores events that have neither an id of their producer's nor an ordering key, and one delivery for each endpoint
that wants them. Answers with the kinds, which say how many and which."""

STORE_PLAIN_IF_STILL_TRUE = _plain(_KINDS_STILL_TRUE)
"""The same, for kinds whose key, consumer and type are as they were believed to be. Skips the others."""

STORE_ANY = _any(_KINDS)
"""Stores any events. Skips one whose producer id is taken, and holds back what waits for its turn in an ordering key.
Answers with the kinds, and with the events that were stored."""

STORE_ANY_IF_STILL_TRUE = _any(_KINDS_STILL_TRUE)
"""Both: skips kinds that have changed, and events whose producer id is taken."""


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
class Kind:
    """A consumer and a type in one version, as they were a moment ago; told apart by which object it is."""

    consumer_id: UUID
    consumer_uid: str | None
    type: str
    api_version: str
    # None where the type has no schema, and where nobody looked.
    schema_hash: str | None


# The kind of an event, and the id of the key with which it came. Events that share both are of one kind to a statement.
Belief = tuple[Kind, str | None]
# Its type, version, hash of the schema and key.
_Label = tuple[str, str, str | None, str | None]
T = TypeVar("T")


def is_plain(event: Any) -> bool:
    """Whether nothing but the event and its deliveries is to be written: no id to be unique, no key to count."""
    return event.producer_id is None and event.ordering_key is None


class Written(NamedTuple):
    # Now with their number of deliveries.
    stored: list[Stored]
    # Not stored, since something is no longer as it was believed to be.
    changed: list[Stored]
    # The endpoints that have new work, as the bell writes them.
    ready: set[str]


def store(events: Sequence[Stored]) -> Written:
    return _store(STORE_PLAIN, STORE_ANY, events, _nothing_believed(events))


def store_if_still_true(events: Sequence[Stored], beliefs: Sequence[Belief], *, whole: bool) -> Written:
    """As `store`, without the kinds of which something is no longer true; if `whole`, then without any."""
    return _store(STORE_PLAIN_IF_STILL_TRUE, STORE_ANY_IF_STILL_TRUE, events, beliefs, whole=whole)


def _store(
    for_plain: str, for_any: str, events: Sequence[Stored], beliefs: Sequence[Belief], *, whole: bool = False
) -> Written:
    plain = all(map(is_plain, events))
    # Counted from one, as WITH ORDINALITY does.
    kinds: dict[Belief, int] = {}
    numbers = [kinds.setdefault(belief, len(kinds) + 1) for _, belief in zip(events, beliefs, strict=True)]
    parameters: dict[str, Any] = {
        "kinds": arrays.ints(numbers),
        **_columns(events),
        **({} if plain else _more_columns(events)),
        **_kind_columns(list(kinds)),
        "at_least": len(kinds) if whole else 0,
        "first_wait": settings.DELIVERY_RETRY_SCHEDULE[0],
        **counting_on(ids.new_uuid()),
    }
    with connection.cursor() as cursor:
        cursor.execute(for_plain if plain else for_any, parameters)
        rows = cursor.fetchall()
    by_kind = {kind: count for kind, _, count, _ in rows if kind is not None}
    by_event = {} if plain else {event_id: count for _, event_id, count, _ in rows if event_id is not None}
    # A set, since two types of one consumer may name the same endpoint.
    written = Written([], [], set(" ".join([ready for *_, ready in rows if ready]).split()))
    for event, kind in zip(events, numbers, strict=True):
        count = by_kind.get(kind) if plain else by_event.get(event.id)
        if count is not None:
            event.delivery_count = count
            written.stored.append(event)
        elif kind not in by_kind:
            written.changed.append(event)
    return written


def counting_on(first: UUID) -> dict[str, Any]:
    """The id from which those of one statement's deliveries count on. Half of its last part leaves room for them."""
    start, end = divmod(first.int, 1 << 48)
    return {"id_start": f"{start:020x}", "id_end": end >> 1}


def _nothing_believed(events: Sequence[Stored]) -> list[Belief]:
    # Of an id the number: a UUID's own hash is slow.
    names = [(event.consumer_id.int, event.type, event.api_version) for event in events]
    kinds: dict[tuple[int, str, str], Belief] = {
        name: (Kind(event.consumer_id, None, event.type, event.api_version, None), None)
        for name, event in dict(zip(names, events, strict=True)).items()
    }
    return [kinds[name] for name in names]


def _kind_columns(kinds: Sequence[Belief]) -> dict[str, Any]:
    labels: dict[_Label, int] = {}
    numbers = [
        labels.setdefault((kind.type, kind.api_version, kind.schema_hash, key_id), len(labels))
        for kind, key_id in kinds
    ]
    return {
        "kind_labels": arrays.ints(numbers),
        "consumer_ids": arrays.uuids([kind.consumer_id for kind, _ in kinds]),
        "consumer_uids": arrays.texts([kind.consumer_uid for kind, _ in kinds]),
        # One or a few.
        "labels": orjson.dumps([_label_row(*label, number) for label, number in labels.items()]).decode(),
    }


def _label_row(type: str, api_version: str, schema_hash: str | None, key_id: str | None, number: int) -> dict[str, Any]:
    return {
        "label": number,
        "type": type,
        "patterns": _patterns(type),
        "api_version": api_version,
        "key_id": key_id,
        "schema_hash": schema_hash,
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
