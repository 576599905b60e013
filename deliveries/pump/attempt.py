"""One attempt, from claim to verdict: prepare, sign, send, decide. Writes nothing and never fails."""

import logging
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import httpx

from deliveries import retry
from deliveries.claim import Claimed
from deliveries.health.breaker import read_signal
from deliveries.pump import prepare
from deliveries.pump.release import LOCKED, SHORTAGE
from deliveries.retry import Facts, read_retry_after
from deliveries.send import Answered, Outgoing, Unanswered, send
from deliveries.settle import Outcome
from subscriptions import ids
from subscriptions.secrets.vault import VaultError

logger = logging.getLogger(__name__)


async def attempt(
    delivery: Claimed,
    *,
    transport: httpx.AsyncBaseTransport,
    schedule: Sequence[int],
    user_agent: str,
    is_well: Callable[[Claimed], bool],
    clock_ahead: float = 0.0,
) -> Outcome:
    """By the database's clock, of which this machine's is so many seconds ahead."""
    outgoing: Outgoing | None = None
    try:
        outgoing = prepare.outgoing(delivery, user_agent=user_agent, timestamp=int(time.time() - clock_ahead))
        sent = prepare.without_secrets(delivery, await send(outgoing, transport=transport))
    except VaultError as error:
        fields = {"delivery": ids.show("dlv", delivery.id), "endpoint": ids.show("ep", delivery.endpoint_id)}
        logger.error("delivery.secrets_locked", extra={"fields": {**fields, "error": str(error)}})
        return _unsent(delivery, LOCKED)
    except Exception as error:  # A bug of ours must not leave a delivery in flight for ever.
        logger.exception("delivery.broken", extra={"fields": {"delivery": str(delivery.id)}})
        sent = Unanswered("internal", type(error).__name__, started_at=datetime.now(UTC), duration_ms=0, address=None)
    if isinstance(sent, Unanswered) and sent.error_kind == SHORTAGE:
        return _unsent(delivery, SHORTAGE, detail=sent.detail)
    now, started_at = datetime.now(UTC), sent.started_at
    if clock_ahead:
        now, started_at = now - timedelta(seconds=clock_ahead), started_at - timedelta(seconds=clock_ahead)
    facts = read_facts(sent, now=now)
    verdict = retry.decide(
        facts,
        attempt_in_round=delivery.attempt_in_round,
        schedule=delivery.retry_schedule or schedule,
        now=now,
        jitter=random.uniform(-1, 1),
    )
    failed = facts.status_code is not None and not isinstance(verdict, retry.Delivered)
    return Outcome(
        delivery_id=delivery.id,
        endpoint_id=delivery.endpoint_id,
        number=delivery.number,
        verdict=verdict,
        signal=read_signal(facts, verdict, now=now),
        # Asked now: while this request was under way, another one may have failed.
        endpoint_is_well=is_well(delivery),
        ordering=(delivery.consumer_id, delivery.ordering_key) if delivery.ordering_key is not None else None,
        decided_at=now,
        started_at=started_at,
        duration_ms=sent.duration_ms,
        url=delivery.url,
        request_headers=prepare.redacted(delivery, outgoing) if outgoing else (),
        address=sent.address,
        status_code=facts.status_code,
        error_kind=f"http_{facts.status_code}" if failed else facts.error_kind,
        error_detail=sent.detail if isinstance(sent, Unanswered) else None,
        response_headers=sent.headers if isinstance(sent, Answered) else None,
        response_body=sent.body if isinstance(sent, Answered) else None,
    )


def _unsent(delivery: Claimed, reason: str, *, detail: str | None = None) -> Outcome:
    """Nothing was sent, and the delivery goes back (release.py)."""
    now = datetime.now(UTC)
    return Outcome(
        delivery_id=delivery.id,
        endpoint_id=delivery.endpoint_id,
        number=delivery.number,
        verdict=retry.RetryAt(now),
        decided_at=now,
        started_at=now,
        duration_ms=0,
        url=delivery.url,
        error_kind=reason,
        error_detail=detail,
        claimed_due_at=delivery.due_at,
    )


def read_facts(sent: Answered | Unanswered, *, now: datetime) -> Facts:
    if isinstance(sent, Unanswered):
        return Facts(status_code=None, error_kind=sent.error_kind)
    headers = {name.lower(): value for name, value in sent.headers}
    return Facts(
        status_code=sent.status_code,
        error_kind=None,
        control=headers.get("webhook-delivery", "").strip().lower() or None,
        retry_after=read_retry_after(headers.get("retry-after"), status_code=sent.status_code, now=now),
    )
