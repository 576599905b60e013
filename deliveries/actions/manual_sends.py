"""Requests sent by hand: a test, a check-up. Written down before anything goes out, and not where nothing does."""

from typing import Any

from django.db import transaction

from deliveries.endpoint_tests import check_up, sent_tests, test_event
from deliveries.endpoint_tests.models import SentTest
from deliveries.endpoint_tests.test_event import Trial
from subscriptions.audit import Actor, record
from subscriptions.models import Endpoint


def send_test(endpoint: Endpoint, *, actor: Actor, why: str, **event: Any) -> tuple[Trial, SentTest]:
    """What came of it, and as the log keeps it. `Held` or `TooManyTests` when nothing was sent."""
    trial = test_event.run(endpoint, before_sending=lambda: _record(endpoint, "endpoint.tested", actor, why), **event)
    return trial, sent_tests.keep(endpoint, trial, sent_by=str(actor))


def run_check_up(endpoint: Endpoint, *, actor: Actor, why: str) -> dict[str, Any]:
    """The report. `Held`, `TooManyTests` or `TooSoon` when nothing was sent."""
    return check_up.run(endpoint, before_sending=lambda: _record(endpoint, "endpoint.checked_up", actor, why))


@transaction.atomic
def _record(endpoint: Endpoint, action: str, actor: Actor, why: str) -> None:
    record(actor=actor, action=action, target=endpoint.public_id, consumer=endpoint.consumer_id, why=why)
