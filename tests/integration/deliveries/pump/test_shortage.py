"""A machine out of files, memory, threads or ports: no attempt is used up, and less is claimed."""

import errno
import logging

import httpx
import pytest

from deliveries.models import Attempt, Delivery
from subscriptions.models import Consumer, Lane
from tests.conftest import PumpRunner
from tests.walk import accept, new_endpoint, pass_time, states

pytestmark = pytest.mark.django_db(transaction=True)


class ShortOfFiles:
    """A machine that opens no connection at first, and then all of them."""

    def __init__(self, fails: int) -> None:
        self._fails = fails
        self.asked: list[str] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.headers["webhook-attempt"])
        if len(self.asked) <= self._fails:
            raise httpx.ConnectError("No connection.") from OSError(errno.EMFILE, "Too many open files")
        return httpx.Response(200)


def test_a_shortage_of_ours_uses_up_no_attempt_and_slows_the_claiming(
    acme: Consumer, pump: PumpRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: without free files 1,578 attempts were recorded, and healthy endpoints reached attempt six."""
    endpoint = new_endpoint(acme, retry_schedule=[0], max_in_flight=8)
    accept(acme, 8)
    machine = ShortOfFiles(fails=8)

    with caplog.at_level(logging.ERROR):
        assert pump.run(transport=httpx.MockTransport(machine.answer)) == 0
    assert states(endpoint) == ["pending"] * 8
    assert set(Delivery.objects.values_list("attempt_count", flat=True)) == {0}
    assert not Attempt.objects.exists()
    pass_time(seconds=2)
    assert pump.run(transport=httpx.MockTransport(machine.answer)) == 8

    assert states(endpoint) == ["delivered"] * 8
    assert set(Delivery.objects.values_list("attempt_count", flat=True)) == {1}
    assert list(Attempt.objects.values_list("number", "status_code", "error_kind")) == [(1, 200, None)] * 8
    assert set(machine.asked) == {"1"}
    assert Lane.objects.get(endpoint=endpoint).failure_count == 0
    assert caplog.messages.count("pump.shortage") == 1
