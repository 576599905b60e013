"""Periodic work around subscriptions."""

import logging

from celery import shared_task
from django.conf import settings

from subscriptions import idempotency
from subscriptions.access import key_tree, portal_visits
from subscriptions.secrets import handover

logger = logging.getLogger(__name__)


@shared_task(name="subscriptions.forget_answers", ignore_result=True)
def forget_answers() -> None:
    """Stored answers to Idempotency-Keys are kept as long as promised, and no longer. So is what no page asked for."""
    forgotten = idempotency.forget_old(hours=settings.IDEMPOTENCY_HOURS)
    logger.info("idempotency.forgotten", extra={"fields": {"count": forgotten, "handovers": handover.forget_old()}})


@shared_task(name="subscriptions.forget_visits", ignore_result=True)
def forget_visits() -> None:
    """Links to the portal and the sessions they became, long after they ended."""
    logger.info(
        "portal.forgotten", extra={"fields": {"count": portal_visits.forget_old(days=settings.RETENTION_VISIT_DAYS)}}
    )


@shared_task(name="subscriptions.forget_keys", ignore_result=True)
def forget_keys() -> None:
    """API keys, long after they ended."""
    logger.info("keys.forgotten", extra={"fields": {"count": key_tree.forget_old(days=settings.RETENTION_KEY_DAYS)}})
