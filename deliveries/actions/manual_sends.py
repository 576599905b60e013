"""Requests sent by hand: a test, a check-up. Written down before anything goes out, and not where nothing does."""

from typing import Any

from django.db import transaction

from deliveries.endpoint_tests import check_up, test_event
from deliveries.endpoint_tests.test_event import Trial
from subscriptions.audit import Actor, record
from subscriptions.models import Endpoint


def send_test(endpoint: Endpoint, *, actor: Actor, why: str) -> Trial:
    """`Held` or `Busy` when nothing was sent."""
    return test_event.run(endpoint, before_sending=lambda: _record(endpoint, "endpoint.tested", actor, why))


def run_check_up(endpoint: Endpoint, *, actor: Actor, why: str) -> dict[str, Any]:
    """The report. `Held`, `Busy` or `TooSoon` when nothing was sent."""
    return check_up.run(endpoint, before_sending=lambda: _record(endpoint, "endpoint.checked_up", actor, why))


@transaction.atomic
def _record(endpoint: Endpoint, action: str, actor: Actor, why: str) -> None:
    record(actor=actor, action=action, target=endpoint.public_id, consumer=endpoint.consumer_id, why=why)
