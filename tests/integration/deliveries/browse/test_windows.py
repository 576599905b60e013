"""deliveries/browse/walk.py: a window is read as of one moment, whatever leaves it meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.browse.source import COLUMNS
from deliveries.browse.walk import next_batch
from deliveries.models import Delivery
from subscriptions.models import Consumer
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

pytestmark = pytest.mark.django_db(transaction=True)


class ReplayBeforeSecondLook:
    """Replays a delivery by hand, just before the second statement that looks for candidates."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.looks = 0

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if COLUMNS in sql:
            self.looks += 1
            if self.looks == 2:
                replay.replay_one(self.delivery)
        return execute(sql, params, many, context)


def test_a_replay_by_hand_during_a_replay_job_makes_it_skip_nothing(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    for kind in ("a.x", "a.x", "b.x", "a.x"):
        accept(acme, type=kind)
        settle_all(*[answered(delivery, 500) for delivery in claim_for(endpoint).deliveries])
    rows = list(Delivery.objects.order_by("id"))
    assert [row.state for row in rows] == ["dead"] * 4

    wanted, after, is_last = Filter(consumer_id=acme.id, event_type="b.x"), None, False
    found, by_hand = [], ReplayBeforeSecondLook(rows[0])
    with connection.execute_wrapper(by_hand):
        while not is_last:
            batch = next_batch(wanted, size=10, after=after, finished_by=timezone.now(), window=2)
            found += batch.ids
            after, is_last = batch.position, batch.is_last

    assert by_hand.looks > 1
    assert found == [rows[2].id]
