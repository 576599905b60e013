"""Part of accept: the one statement that stores events and what is owed for them.

Events of one consumer, type and version are of one kind. What they share is sent and looked up once per kind: which
endpoints want them, and whether what was believed of them is still true.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection

from subscriptions import ids
from subscriptions.event_types import patterns_for

_KINDS = """
    kind AS MATERIALIZED (
        SELECT * FROM json_to_recordset(%(kinds)s::json) AS kind (
            kind int, consumer_id uuid, type text, patterns text, api_version text
        )
    )
"""
# What `gather` knew a moment ago, looked at again in the very statement that relies on it.
_KINDS_STILL_TRUE = """
    believed AS MATERIALIZED (
        SELECT kind.* FROM json_to_recordset(%(kinds)s::json) AS kind (
            kind int, consumer_id uuid, type text, patterns text, api_version text,
            key_id uuid, consumer_uid text, schema_hash text
        )
        JOIN subscriptions_consumer consumer
            ON consumer.id = kind.consumer_id AND consumer.deleted_at IS NULL
            AND consumer.uid IS NOT DISTINCT FROM kind.consumer_uid
        JOIN subscriptions_apikey key
            ON key.id = kind.key_id AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > now())
        JOIN subscriptions_eventtype known
            ON known.name = kind.type AND known.archived_at IS NULL AND known.used_at IS NOT NULL
        LEFT JOIN subscriptions_eventtypeversion version
            ON version.event_type_id = kind.type AND version.api_version = kind.api_version
            AND version.schema IS NOT NULL
        WHERE md5(version.schema::text) IS NOT DISTINCT FROM kind.schema_hash
    ), kind AS MATERIALIZED (
        SELECT * FROM believed WHERE (SELECT count(*) FROM believed) >= %(at_least)s
    )
"""
_GIVEN = """
    WITH {kinds}, wanted AS MATERIALIZED (
        SELECT kind.kind, kind.consumer_id, kind.type, kind.api_version, endpoint.id AS endpoint_id, endpoint.ordered,
            coalesce(endpoint.retry_schedule[1], %(first_wait)s) * interval '1 second' AS wait
        FROM kind LEFT JOIN LATERAL (
            SELECT id, ordered, retry_schedule
            FROM subscriptions_endpoint
            WHERE consumer_id = kind.consumer_id AND deleted_at IS NULL
                AND event_types::text[] && string_to_array(kind.patterns, ' ')
            -- Looked up for each kind, and never by reading all endpoints there are.
            OFFSET 0
        ) endpoint ON true
    ), counted AS MATERIALIZED (
        SELECT kind, consumer_id, type, api_version, count(endpoint_id) AS delivery_count,
            array_agg(endpoint_id) FILTER (WHERE endpoint_id IS NOT NULL) AS endpoint_ids
        FROM wanted
        GROUP BY kind, consumer_id, type, api_version
    ), given AS MATERIALIZED (
        SELECT event.*, counted.consumer_id, counted.type, counted.api_version, counted.delivery_count
        FROM json_to_recordset(%(events)s::json) AS event (
            kind int, id uuid, body text, created_at timestamptz, occurred_at timestamptz, producer_id text,
            ordering_key text, sequence bigint, traceparent text
        )
        -- Nobody knows how many there are of either, and a plan made for few compares each with each. A full join
        -- cannot, and `num_nulls` leaves it full.
        FULL JOIN counted USING (kind)
        WHERE num_nulls(event.id, counted.consumer_id) = 0
    ), stored AS (
        INSERT INTO deliveries_event (
            id, consumer_id, type, api_version, producer_id, body, occurred_at, created_at, ordering_key, sequence,
            traceparent, delivery_count, xid
        )
        SELECT id, consumer_id, type, api_version, producer_id, convert_to(body, 'UTF8'), occurred_at, created_at,
            ordering_key, sequence, traceparent, delivery_count,
            -- The column's default, worked out once for all of them.
            (SELECT webhooks_feed_xid(pg_current_xact_id()))
        FROM given
"""
# PostgreSQL's own uuidv7() asks for fresh randomness each time, which takes longer than the rest of the row.
_DELIVERY_ID = "(%(id_start)s || lpad(to_hex(%(id_end)s + row_number() OVER ()), 12, '0'))::uuid"
_PLAIN = """
    ), owed AS (
        INSERT INTO deliveries_delivery (
            id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at, blocked
        )
        SELECT {delivery_id}, given.id, endpoint_id, 'pending', now() + wait, 0, 0, now(), created_at, false
        FROM given FULL JOIN wanted USING (kind)
        WHERE num_nulls(given.id, wanted.endpoint_id) = 0
    )
    SELECT kind, NULL::uuid, delivery_count, endpoint_ids FROM counted
"""
_NAMED_OR_ORDERED = """
        -- Each waits for who takes its producer id at the same moment: in one order, or two batches deadlock.
        ORDER BY consumer_id, producer_id
        ON CONFLICT (consumer_id, producer_id) WHERE producer_id IS NOT NULL DO NOTHING
        RETURNING id, delivery_count
    ), matched AS (
        SELECT given.id AS event_id, given.created_at, wanted.endpoint_id, wanted.wait,
            CASE WHEN wanted.ordered THEN given.ordering_key END AS ordering_key,
            CASE WHEN wanted.ordered THEN given.sequence END AS sequence
        FROM given FULL JOIN stored USING (id) FULL JOIN wanted USING (kind)
        WHERE num_nulls(given.id, stored.id, wanted.endpoint_id) = 0
    ), owed AS (
        INSERT INTO deliveries_delivery (
            id, event_id, endpoint_id, state, due_at, attempt_count, round_base, round_started_at, created_at,
            ordering_key, sequence, blocked
        )
        SELECT {delivery_id}, event_id, endpoint_id, 'pending', now() + wait, 0, 0, now(), matched.created_at,
            ordering_key, sequence,
            ordering_key IS NOT NULL AND (
                row_number() OVER (PARTITION BY endpoint_id, ordering_key ORDER BY sequence) > 1
                OR EXISTS (
                    SELECT FROM deliveries_delivery earlier
                    WHERE earlier.endpoint_id = matched.endpoint_id AND earlier.ordering_key = matched.ordering_key
                        AND earlier.state IN ('pending', 'in_flight') AND NOT earlier.blocked
                )
            )
        FROM matched
        RETURNING endpoint_id
    )
    SELECT kind, NULL::uuid AS id, NULL AS delivery_count, NULL::uuid[] FROM counted
    UNION ALL
    SELECT NULL, id, delivery_count, NULL FROM stored
    UNION ALL
    SELECT NULL, NULL, NULL, array_agg(DISTINCT endpoint_id) FROM owed
"""

STORE_PLAIN = (_GIVEN + _PLAIN).format(kinds=_KINDS, delivery_id=_DELIVERY_ID)
"""Stores events that have neither an id of their producer's nor an ordering key, and one delivery for each endpoint
that wants them. Answers with the kinds, which say how many and which."""

STORE_PLAIN_IF_STILL_TRUE = (_GIVEN + _PLAIN).format(kinds=_KINDS_STILL_TRUE, delivery_id=_DELIVERY_ID)
"""The same, for kinds whose key, consumer and type are as they were believed to be. Skips the others."""

STORE_ANY = (_GIVEN + _NAMED_OR_ORDERED).format(kinds=_KINDS, delivery_id=_DELIVERY_ID)
"""Stores any events. Skips one whose producer id is taken, and holds back what waits for its turn in an ordering key.
Answers with the kinds, and with the events that were stored."""

STORE_ANY_IF_STILL_TRUE = (_GIVEN + _NAMED_OR_ORDERED).format(kinds=_KINDS_STILL_TRUE, delivery_id=_DELIVERY_ID)
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


class Belief(NamedTuple):
    """What was true a moment ago of the key, the consumer and the type of an event."""

    key_id: UUID
    consumer_uid: str | None
    # Of the type's schema; None where it has none.
    schema_hash: str | None


# Kinds by what they have in common: each with its number and the first event of it.
_Kinds = dict[tuple[object, ...], tuple[int, Stored, Belief | None]]


def is_plain(event: Any) -> bool:
    """Whether nothing but the event and its deliveries is to be written: no id to be unique, no key to count."""
    return event.producer_id is None and event.ordering_key is None


class Written(NamedTuple):
    # Now with their number of deliveries.
    stored: list[Stored]
    # Not stored, since something is no longer as it was believed to be.
    changed: list[Stored]
    # Those that have new work.
    endpoint_ids: list[UUID]


def store(events: Sequence[Stored]) -> Written:
    return _store(STORE_PLAIN, STORE_ANY, [(event, None) for event in events])


def store_if_still_true(events: Sequence[tuple[Stored, Belief]], *, whole: bool) -> Written:
    """As `store`, without the kinds whose belief turns out to be wrong; if `whole`, then without any."""
    return _store(STORE_PLAIN_IF_STILL_TRUE, STORE_ANY_IF_STILL_TRUE, events, whole=whole)


def _store(
    for_plain: str, for_any: str, events: Sequence[tuple[Stored, Belief | None]], *, whole: bool = False
) -> Written:
    plain = all(is_plain(event) for event, _ in events)
    kinds: _Kinds = {}
    numbers = [_number(kinds, event, belief) for event, belief in events]
    parameters: dict[str, Any] = {
        "events": _json([_row(event, number) for (event, _), number in zip(events, numbers, strict=True)]),
        "kinds": _json([_kind_row(*kind) for kind in kinds.values()]),
        "at_least": len(kinds) if whole else 0,
        "first_wait": settings.DELIVERY_RETRY_SCHEDULE[0],
        **counting_on(ids.new_uuid()),
    }
    with connection.cursor() as cursor:
        cursor.execute(for_plain if plain else for_any, parameters)
        rows = cursor.fetchall()
    by_kind = {kind: count for kind, _, count, _ in rows if kind is not None}
    by_event = {event_id: count for _, event_id, count, _ in rows if event_id is not None}
    # Two types of one consumer may name the same endpoint.
    written = Written([], [], list({endpoint_id for *_, endpoint_ids in rows for endpoint_id in endpoint_ids or ()}))
    for (event, _), kind in zip(events, numbers, strict=True):
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


def _number(kinds: _Kinds, event: Stored, belief: Belief | None) -> int:
    # Of ids the numbers: a UUID's own hash is slow, and this is asked for every event.
    common: tuple[object, ...] = (event.consumer_id.int, event.type, event.api_version)
    if belief is not None:
        common += (belief.key_id.int, belief.consumer_uid, belief.schema_hash)
    return kinds.setdefault(common, (len(kinds), event, belief))[0]


def _kind_row(number: int, event: Stored, belief: Belief | None) -> dict[str, Any]:
    row = {
        "kind": number,
        "consumer_id": event.consumer_id,
        "type": event.type,
        "patterns": _patterns(event.type),
        "api_version": event.api_version,
    }
    if belief is not None:
        row["key_id"], row["consumer_uid"], row["schema_hash"] = belief
    return row


@lru_cache(maxsize=4096)
def _patterns(type: str) -> str:
    return " ".join(patterns_for(type))


def _row(event: Stored, kind: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": kind,
        "id": event.id,
        # Text, since JSON carries no bytes: they are UTF-8, and come out of PostgreSQL as they went in.
        "body": event.body.decode(),
        "created_at": event.created_at,
    }
    # Left out, a field is null, and there is less to read.
    for name in ("occurred_at", "producer_id", "ordering_key", "sequence", "traceparent"):
        if (value := getattr(event, name)) is not None:
            row[name] = value
    return row


def _json(rows: Sequence[dict[str, Any]]) -> str:
    return orjson.dumps(rows).decode()
