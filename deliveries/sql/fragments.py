"""Rules of the ledger that several statements share, as SQL: each stands here once.

States come from the models' enums. A row of `deliveries_delivery` is named by an alias where the statement has several.

Lock order. A transaction that locks rows of several kinds locks them in this order, and rows of one kind by id, or two
transactions could wait for each other: endpoint, lane, ordering key, delivery, event.
"""

from deliveries import states
from deliveries.health.models import NoticeKind
from deliveries.replaying.models import ReplayStatus
from deliveries.states import DeliveryState
from subscriptions.models import EndpointStatus


def _literal(*values: str) -> str:
    """Values of our own enums, which hold no quotes."""
    return ", ".join(f"'{value}'" for value in values)


PENDING = _literal(DeliveryState.PENDING)
IN_FLIGHT = _literal(DeliveryState.IN_FLIGHT)
DELIVERED = _literal(DeliveryState.DELIVERED)
DEAD = _literal(DeliveryState.DEAD)
# Still to be sent or answered, and ended.
LIVE = f"({_literal(*states.LIVE)})"
FINISHED = f"({_literal(*states.FINISHED)})"

ACTIVE = _literal(EndpointStatus.ACTIVE)
DISABLED = _literal(EndpointStatus.DISABLED)
RUNNING = _literal(ReplayStatus.RUNNING)


def is_claimable(alias: str = "") -> str:
    """Waits for its time and for no earlier delivery of its key: the condition of the index `delivery_due`."""
    row = f"{alias}." if alias else ""
    return f"{row}state = {PENDING} AND NOT {row}blocked"


def is_lost(alias: str, *, unless: str = "lease.expires_at > now()") -> str:
    """In flight, and nobody holds it any more: its worker's `lease` was ended, or has run out."""
    return f"""{alias}.state = {IN_FLIGHT} AND NOT EXISTS (
        SELECT FROM deliveries_lease lease WHERE lease.id = {alias}.leased_by AND ({unless})
    )"""


IS_HELD = """EXISTS (
    SELECT FROM subscriptions_hold held WHERE held.consumer_id IS NULL OR held.consumer_id = endpoint.consumer_id
)"""
"""An operator's kill switch is on for `endpoint`."""

MAY_BE_SENT_TO = f"endpoint.status = {ACTIVE} AND endpoint.deleted_at IS NULL AND NOT {IS_HELD}"
"""No person keeps deliveries from `endpoint`. Its lane (breaker, rate limit, Retry-After) is another matter."""


def has_head(endpoint_id: str, ordering_key: str) -> str:
    """A delivery of this key is under way or may go: another one of the key has to wait behind it."""
    return f"""EXISTS (
        SELECT FROM deliveries_delivery head
        WHERE head.endpoint_id = {endpoint_id} AND head.ordering_key = {ordering_key}
            AND head.state IN {LIVE} AND NOT head.blocked
    )"""


def unblock_next(ended: str, *, where: str = "", except_for: str = "") -> str:
    """An UPDATE: of each ordering key that lost its head, the next delivery may go.

    `ended` names rows with `endpoint_id` and `ordering_key`; `where` says which of them were heads, and `except_for`
    which waiting deliveries (`waiting.id`) are not meant.
    """
    return f"""
        UPDATE deliveries_delivery SET blocked = false, due_at = now()
        WHERE id = ANY (ARRAY(
            SELECT (
                SELECT waiting.id FROM deliveries_delivery waiting
                WHERE waiting.endpoint_id = {ended}.endpoint_id AND waiting.ordering_key = {ended}.ordering_key
                    AND waiting.blocked {except_for}
                ORDER BY waiting.sequence LIMIT 1
            )
            FROM {ended} WHERE {ended}.ordering_key IS NOT NULL {where}
        ))
    """


def lock_keys(wanted: str) -> str:
    """A SELECT that locks ordering keys in their order. `wanted` selects `consumer_id` and `key`, each pair once.

    Accepting an event holds its key's row until it commits. Whoever ends, replays or reorders deliveries of a key locks
    the row first, or an event that cannot be seen yet would wait for ever behind a delivery that has ended.
    """
    return f"""
        SELECT held.consumer_id, held.key FROM deliveries_orderingkey held
        JOIN ({wanted}) wanted USING (consumer_id, key)
        ORDER BY held.consumer_id, held.key
        FOR NO KEY UPDATE OF held
    """


def notice_of_death(dead: str, *, delivery_id: str = "id", where: str = "true") -> str:
    """An INSERT: one notice for each of the rows `dead`, which have `endpoint_id` and `dead_reason`."""
    return f"""
        INSERT INTO deliveries_notice (id, endpoint_id, delivery_id, kind, reason)
        SELECT webhooks_uuid7(), endpoint_id, {delivery_id}, {_literal(NoticeKind.DEAD)}, dead_reason
        FROM {dead} WHERE {where}
    """


DISABLE_ENDPOINTS = f"""
    WITH disabled AS (
        UPDATE subscriptions_endpoint endpoint
        SET status = {DISABLED}, disabled_reason = given.reason, updated_at = now()
        FROM unnest(%(endpoint_ids)s::uuid[], %(reasons)s::text[]) AS given (id, reason)
        WHERE endpoint.id = given.id AND endpoint.status = ANY (%(statuses)s) AND endpoint.deleted_at IS NULL
        RETURNING endpoint.id, given.reason
    ), noticed AS (
        INSERT INTO deliveries_notice (id, endpoint_id, kind, reason)
        SELECT webhooks_uuid7(), id, {_literal(NoticeKind.DISABLED)}, reason FROM disabled
    ), owed AS (
        UPDATE subscriptions_lane SET recovery_owed = true WHERE endpoint_id IN (SELECT id FROM disabled)
    )
    SELECT id FROM disabled
"""
"""Disables endpoints that have one of these statuses, each with its notice, and says which. Nothing owed is lost."""

TOKENS_NOW = """least(
    greatest(1, endpoint.rate_limit_per_second / 10.0),
    -- From before the clock was set back, the moment says nothing: the bucket is full.
    CASE WHEN lane.tokens_at <= statement_timestamp() THEN lane.tokens
        + extract(epoch FROM statement_timestamp() - lane.tokens_at) * endpoint.rate_limit_per_second END
)"""
"""The tokens in the rate limit's bucket of `endpoint` and its `lane`: a tenth of a second's worth at most, or one."""


def spend_tokens(bucket: str, count: str) -> str:
    """The SET list of an UPDATE of a lane. `bucket` names the row with `tokens` and `rate`.

    An empty bucket closes the lane until the next token is there. Not behind an open breaker: only the cool-down may
    close the lane then, since settling tells a probe by the open lane.
    """
    return f"""
        tokens = {bucket}.tokens - {count}, tokens_at = statement_timestamp(),
        opens_at = CASE WHEN {bucket}.tokens - {count} < 1 AND NOT breaker_open THEN greatest(
            opens_at, statement_timestamp() + (1 - {bucket}.tokens + {count}) / {bucket}.rate * interval '1 second'
        ) ELSE opens_at END
    """
