"""The bell rings after the commit: with a sweep that comes too late, a slow commit delays nothing but itself."""

from pathlib import Path

import pytest

from subscriptions import endpoints, keys
from subscriptions.models import Consumer, Role
from tests.receiver import Receiver
from tests.stack import StartStack

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

# Nobody else tells a pump what is due for so long (seconds).
SWEEP = 60


def test_an_event_whose_commit_took_long_is_announced_after_it(
    start_stack: StartStack, acme: Consumer, receiver: Receiver, tmp_path: Path
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    points = {"FAIL_POINTS_DIR": str(tmp_path), "FAIL_POINTS_ALLOWED": "true"}
    stack = start_stack("web", "deliveries1", DELIVERY_SWEEP_SECONDS=str(SWEEP), **points)
    client = stack.client(keys.issue(role=Role.PRODUCER)[1])
    event = {"consumer": "acme", "type": "slow.commit", "data": {}}
    # A pump runs, and has swept: from now on it hears of work by the bell alone.
    client.post("events/", json=event, headers={"Idempotency-Key": "first"}).raise_for_status()
    receiver.wait_for(1, seconds=60)

    armed = tmp_path / "accept.before_commit"
    armed.write_text("1")
    client.post("events/", json=event, headers={"Idempotency-Key": "second"}).raise_for_status()

    assert not armed.exists()
    receiver.wait_for(2, seconds=SWEEP / 3)
