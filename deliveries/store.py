"""Part of accept: the one statement that stores events and what is owed for them.

Events of one consumer, type and version are of one kind. What they share is sent and looked up once per kind: which
endpoints want them, and whether what was believed of the consumer is still true. What kinds share whatever their
consumer is their label: the type, its version and schema, and the key that came with them. It, too, is sent and looked
up once.
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
    label AS MATERIALIZED (
        SELECT * FROM json_to_recordset(%(labels)s::json) AS label (
            label int, type text, patterns text, api_version text
        )
    ), kind AS MATERIALIZED (
        SELECT kind.kind, kind.consumer_id, label.type, label.patterns, label.api_version
        FROM json_to_recordset(%(kinds)s::json) AS kind (kind int, label int, consumer_id uuid)
        JOIN label USING (label)
    )
"""
# What `gather` knew a moment ago, looked at again in the very statement that relies on it.
_KINDS_STILL_TRUE = """
    label AS MATERIALIZED (
        SELECT label.label, label.type, label.patterns, label.api_version
        FROM json_to_recordset(%(labels)s::json) AS label (
            label int, type text, patterns text, api_version text, key_id uuid, schema_hash text
        )
        JOIN subscriptions_apikey key
            ON key.id = label.key_id AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > now())
        JOIN subscriptions_eventtype known
            ON known.name = label.type AND known.archived_at IS NULL AND known.used_at IS NOT NULL
        LEFT JOIN subscriptions_eventtypeversion version
            ON version.event_type_id = label.type AND version.api_version = label.api_version
            AND version.schema IS NOT NULL
        WHERE md5(version.schema::text) IS NOT DISTINCT FROM label.schema_hash
    ), believed AS MATERIALIZED (
        SELECT kind.kind, kind.consumer_id, label.type, label.patterns, label.api_version
        FROM json_to_recordset(%(kinds)s::json) AS kind (kind int, label int, consumer_id uuid, consumer_uid text)
        JOIN label USING (label)
        JOIN subscriptions_consumer consumer
            ON consumer.id = kind.consumer_id AND consumer.deleted_at IS NULL
            AND consumer.uid IS NOT DISTINCT FROM kind.consumer_uid
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
            string_agg(encode(uuid_send(endpoint_id), 'hex'), ' ') AS endpoints
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
    SELECT kind, NULL::uuid, delivery_count, endpoints FROM counted
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
    SELECT kind, NULL::uuid AS id, NULL AS delivery_count, NULL AS endpoints FROM counted
    UNION ALL
    SELECT NULL, id, delivery_count, NULL FROM stored
    UNION ALL
    SELECT NULL, NULL, NULL, string_agg(DISTINCT encode(uuid_send(endpoint_id), 'hex'), ' ') FROM owed
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
# By type, version, hash of the schema and key: their numbers.
_Labels = dict[tuple[str, str, str | None, str | None], int]


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
    kinds: dict[Belief, int] = {}
    numbers = [kinds.setdefault(belief, len(kinds)) for belief in beliefs]
    labels: _Labels = {}
    kind_rows = [_kind_row(belief, number, labels) for belief, number in kinds.items()]
    parameters: dict[str, Any] = {
        "events": _json([_row(event, number) for event, number in zip(events, numbers, strict=True)]),
        "kinds": _json(kind_rows),
        "labels": _json([_label_row(*label, number) for label, number in labels.items()]),
        "at_least": len(kinds) if whole else 0,
        "first_wait": settings.DELIVERY_RETRY_SCHEDULE[0],
        **counting_on(ids.new_uuid()),
    }
    with connection.cursor() as cursor:
        cursor.execute(for_plain if plain else for_any, parameters)
        rows = cursor.fetchall()
    by_kind = {kind: count for kind, _, count, _ in rows if kind is not None}
    by_event = {event_id: count for _, event_id, count, _ in rows if event_id is not None}
    # A set, since two types of one consumer may name the same endpoint.
    written = Written([], [], {endpoint for *_, endpoints in rows if endpoints for endpoint in endpoints.split()})
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


def _kind_row(belief: Belief, number: int, labels: _Labels) -> dict[str, Any]:
    """Adds its label to the others, if it is a new one."""
    kind, key_id = belief
    label = labels.setdefault((kind.type, kind.api_version, kind.schema_hash, key_id), len(labels))
    return {"kind": number, "label": label, "consumer_id": kind.consumer_id, "consumer_uid": kind.consumer_uid}


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
