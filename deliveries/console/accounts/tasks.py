"""Periodic work around the console's accounts."""

import logging

from celery import shared_task
from django.contrib.sessions.models import Session
from django.utils import timezone

from deliveries.console.accounts import throttle

logger = logging.getLogger(__name__)


@shared_task(name="console.forget_logins", ignore_result=True)
def forget_logins() -> None:
    """Failed logins that are forgiven, and sessions that have ended."""
    ended = Session.objects.filter(expire_date__lt=timezone.now()).delete()[0]
    logger.info("logins.forgotten", extra={"fields": {"throttles": throttle.forget_old(), "sessions": ended}})
