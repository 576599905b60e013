"""Who may send a test or a check-up now. They go out by hand and outside the queue, and still within every limit:

1. Of this process, four at most: a test holds one of the WEB_SLOTS for as long as its receiver takes.
2. Of a consumer, one at a time across all processes. One that took long is followed by a pause of the same length, so
   that a receiver that hangs leaves the process's places to others half of the time.
3. Of an endpoint, within `max_in_flight` and `rate_limit_per_second`: the claim counts a test as a request in flight
   (claim.py), so one that finds no room waits a moment for the next place, and is refused where none comes free. It
   takes its tokens out of the endpoint's bucket.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection, transaction
from django.utils.translation import gettext as _

from deliveries.sql.fragments import IN_FLIGHT, TOKENS_NOW, spend_tokens
from subscriptions import ids
from subscriptions.models import Endpoint

# Of 16 requests that a process works on at a time (WEB_SLOTS).
_AT_ONCE = threading.BoundedSemaphore(4)
# Longer than any test or check-up takes, its wait for tokens included: after a crash the slot is free then (seconds).
_LEASE_SECONDS = 40
# A test that took no longer than this needs no pause (seconds).
_SHORT_SECONDS = 2.0
# How long to wait for one of the endpoint's requests in flight to end, and how often to look (seconds).
_ROOM_SECONDS, _LOOK_SECONDS = 1.5, 0.05

LOCK_LANE = "SELECT FROM subscriptions_lane WHERE endpoint_id = %(endpoint_id)s FOR NO KEY UPDATE"
"""As the claim does: until the end of the transaction nothing is claimed for this endpoint."""

TAKE_SLOT = """
    INSERT INTO deliveries_trialslot (consumer_id, endpoint_id, token, ends_at, free_at)
    VALUES (
        %(consumer_id)s, %(endpoint_id)s, %(token)s, statement_timestamp() + %(lease)s * interval '1 second',
        statement_timestamp() + %(lease)s * interval '1 second'
    )
    ON CONFLICT (consumer_id) DO UPDATE SET endpoint_id = excluded.endpoint_id, token = excluded.token,
        ends_at = excluded.ends_at, free_at = excluded.free_at
    WHERE deliveries_trialslot.free_at <= statement_timestamp()
"""
"""Takes a consumer's slot if it is free. Of two who ask at the same moment, one gets it."""

IS_FULL = f"""
    SELECT count(*) >= (SELECT max_in_flight FROM subscriptions_endpoint WHERE id = %(endpoint_id)s)
    FROM deliveries_delivery WHERE endpoint_id = %(endpoint_id)s AND state = {IN_FLIGHT}
"""
"""Whether an endpoint has as many requests in flight as it may have."""

WAIT_FOR_SLOT = """
    SELECT extract(epoch FROM free_at - statement_timestamp())::float8 FROM deliveries_trialslot
    WHERE consumer_id = %(consumer_id)s
"""
"""The seconds until a consumer's slot is free, at the latest."""

FREE_SLOT = """
    UPDATE deliveries_trialslot
    SET ends_at = statement_timestamp(), free_at = statement_timestamp() + %(pause)s * interval '1 second'
    WHERE consumer_id = %(consumer_id)s AND token = %(token)s
"""
"""Frees a slot that is still held by this token."""

PAY = f"""
    WITH bucket AS (
        SELECT endpoint.rate_limit_per_second AS rate, {TOKENS_NOW}::float8 AS tokens
        FROM subscriptions_lane lane JOIN subscriptions_endpoint endpoint ON endpoint.id = lane.endpoint_id
        WHERE lane.endpoint_id = %(endpoint_id)s AND endpoint.rate_limit_per_second IS NOT NULL
    )
    UPDATE subscriptions_lane lane
    SET {spend_tokens("bucket", "%(count)s")}
    FROM bucket WHERE lane.endpoint_id = %(endpoint_id)s
    RETURNING greatest(0, (1 - bucket.tokens) / bucket.rate)::float8, (1.0 / bucket.rate)::float8
"""
"""Takes tokens for tests, on credit if need be: how long to wait for the first, and from one to the next (seconds).
Deliveries go on when the credit is paid back, so that both together keep to the rate."""


class TooManyTests(Exception):
    """Nothing was sent, because others are under way. Says which."""

    code = "too_many_tests"

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = max(1, round(retry_after_seconds))


class EndpointFull(TooManyTests):
    """The endpoint has as many requests in flight as it may have."""

    code = "endpoint_full"


@contextmanager
def slot(endpoint: Endpoint) -> Iterator[None]:
    """A place for a test of this endpoint, or `TooManyTests`."""
    if not _AT_ONCE.acquire(blocking=False):
        raise TooManyTests(_("Tests of other consumers take all places. Try again in a moment."), retry_after_seconds=5)
    try:
        token, began = _take(endpoint), time.monotonic()
        try:
            _wait_for_room(endpoint)
            yield
        finally:
            _free(endpoint, token, held_seconds=time.monotonic() - began)
    finally:
        _AT_ONCE.release()


def pay(endpoint: Endpoint, *, count: int = 1) -> float:
    """Waits until the endpoint's rate limit lets the first of so many requests go; the seconds between them."""
    with transaction.atomic(), connection.cursor() as cursor:
        # As the claim: the lane is locked first, and its tokens are counted by the next statement.
        cursor.execute(LOCK_LANE, {"endpoint_id": endpoint.id})
        cursor.execute(PAY, {"endpoint_id": endpoint.id, "count": count})
        [wait, spacing] = cursor.fetchone() or [0.0, 0.0]
    time.sleep(wait)
    return float(spacing)


@transaction.atomic
def _take(endpoint: Endpoint) -> UUID:
    given = {"endpoint_id": endpoint.id, "consumer_id": endpoint.consumer_id, "token": ids.new_uuid()}
    with connection.cursor() as cursor:
        # No claim is under way meanwhile, and the next one sees the slot.
        cursor.execute(LOCK_LANE, {"endpoint_id": endpoint.id})
        cursor.execute(TAKE_SLOT, given | {"lease": _LEASE_SECONDS})
        if cursor.rowcount != 1:
            cursor.execute(WAIT_FOR_SLOT, {"consumer_id": endpoint.consumer_id})
            [seconds] = cursor.fetchone() or [1.0]
            raise TooManyTests(
                _("A test or check-up of this consumer is under way, or took long a moment ago. One runs at a time."),
                retry_after_seconds=seconds,
            )
    return given["token"]


def _wait_for_room(endpoint: Endpoint) -> None:
    """The claim leaves the place of the next request that ends to the test."""
    deadline = time.monotonic() + _ROOM_SECONDS
    while _is_full(endpoint):
        if time.monotonic() >= deadline:
            raise EndpointFull(
                "The endpoint has as many requests in flight as it may have (max_in_flight), and a test would be one"
                " more. Try again in a moment.",
                retry_after_seconds=1,
            )
        time.sleep(_LOOK_SECONDS)


def _is_full(endpoint: Endpoint) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(IS_FULL, {"endpoint_id": endpoint.id})
        return bool((cursor.fetchone() or [False])[0])


def _free(endpoint: Endpoint, token: UUID, *, held_seconds: float) -> None:
    pause = held_seconds if held_seconds > _SHORT_SECONDS else 0
    with connection.cursor() as cursor:
        cursor.execute(FREE_SLOT, {"consumer_id": endpoint.consumer_id, "token": token, "pause": pause})
