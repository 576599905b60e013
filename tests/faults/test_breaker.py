"""The breaker from end to end: six hours of outage cost a handful of probes, and the backlog drains with a slow start.

Six hours are simulated: everything on record becomes older by each cool-down. The proof at full size, a minute:
BREAKER_COUNT=10000 pytest -s tests/faults/test_breaker.py
"""

import asyncio
import os
import sys
from collections import Counter

import httpx
import pytest
from django.utils import timezone

from deliveries.health.models import Notice
from deliveries.models import Attempt, Delivery
from subscriptions.models import Consumer, Endpoint, Lane
from tests.conftest import PumpRunner
from tests.walk import accept, new_endpoint, pass_time, states

pytestmark = pytest.mark.timeout(300)

COUNT = int(os.environ.get("BREAKER_COUNT", "500"))
CAP = 40
SIX_HOURS = 6 * 3600


class Outage(httpx.AsyncBaseTransport):
    """A receiver that is down, then back. It counts what it gets, and how many of them at once."""

    def __init__(self) -> None:
        self.is_down = True
        self.failed: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self.most_at_once = 0
        # Requests under way beyond one for the probe and one for each 2xx before: the slow start allows none.
        self.over_allowance = 0
        self._at_once = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        event_id = request.headers["webhook-id"]
        if self.is_down:
            self.failed[event_id] += 1
            raise httpx.ConnectError("refused")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        self.over_allowance = max(self.over_allowance, self._at_once - 1 - self.delivered.total())
        await asyncio.sleep(0)
        self._at_once -= 1
        self.delivered[event_id] += 1
        return httpx.Response(200)


def until_the_next_probe(endpoint: Endpoint) -> float:
    """Passes the cool-down, and says how many seconds that were."""
    wait = (Lane.objects.get(endpoint=endpoint).opens_at - timezone.now()).total_seconds() + 0.01
    pass_time(seconds=wait)
    return wait


def test_six_hours_down_cost_a_handful_of_probes_and_then_the_backlog_drains_with_a_slow_start(
    acme: Consumer, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme, max_in_flight=CAP)
    for start in range(0, COUNT, 1000):
        accept(acme, min(1000, COUNT - start))
    outage = Outage()
    pump.run(transport=outage)
    opened_after = outage.failed.total()
    assert opened_after <= CAP + 20  # those in flight when the twentieth failed

    down = 0.0
    while down < SIX_HOURS:
        before = outage.failed.total()
        down += until_the_next_probe(endpoint)
        pump.run(transport=outage)
        assert outage.failed.total() == before + 1
    probes = outage.failed.total() - opened_after
    assert probes <= 20
    assert states(endpoint) == ["pending"] * COUNT

    outage.is_down = False
    until_the_next_probe(endpoint)
    pump.run(transport=outage)

    assert states(endpoint) == ["delivered"] * COUNT
    assert (len(outage.delivered), set(outage.delivered.values())) == (COUNT, {1})
    assert outage.over_allowance == 0
    assert Attempt.objects.count() == COUNT + outage.failed.total()
    assert Lane.objects.values_list("breaker_open", "allowance", "failure_count").get() == (False, None, 0)
    assert list(Notice.objects.order_by("id").values_list("kind", flat=True)) == ["breaker_opened", "breaker_closed"]
    most = max(Delivery.objects.values_list("attempt_count", flat=True))
    sys.stdout.write(
        f"\n{COUNT} deliveries: {opened_after} failures opened the breaker, {probes} probes in six hours,"
        f" at most {most} attempts each, then at most {outage.most_at_once} at once\n"
    )
