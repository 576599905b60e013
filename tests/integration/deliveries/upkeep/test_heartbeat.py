"""deliveries/upkeep/heartbeat.py: whose leases end because their worker died on this machine."""

import asyncio
import logging
import subprocess
import sys
import time
from datetime import timedelta
from uuid import UUID

import httpx
import psycopg
import pytest
import redis
from django.db import OperationalError
from django.test import Client

from deliveries import bell, tasks
from deliveries.claim import end_leases_of_the_dead, renew_lease
from deliveries.console import overview
from deliveries.pump import database, process
from deliveries.pump.attempt import attempt
from deliveries.pump.models import Lease
from deliveries.sql import clock
from deliveries.upkeep import heartbeat
from deliveries.upkeep.models import Pulse
from subscriptions import ids
from subscriptions.models import Consumer
from tests.integration.deliveries.test_sweep import recovered
from tests.local import wait_until
from tests.walk import accept, claim_for, new_endpoint, states, with_connection

pytestmark = pytest.mark.django_db(transaction=True)


def lease_of(identity: str) -> UUID:
    lease_id = ids.new_uuid()
    with_connection(lambda own: renew_lease(own, lease_id=lease_id, worker="here:1", seconds=3600, process=identity))
    return lease_id


def end_leases() -> int:
    with psycopg.connect(database.conninfo(), **database.session()) as connection:
        return end_leases_of_the_dead(connection, place=process.place(), is_dead=process.is_dead)


def test_what_a_worker_held_that_died_on_this_machine_goes_out_again_at_once(acme: Consumer) -> None:
    """Regression: its successor waited until the lease had run out."""
    endpoint = new_endpoint(acme)
    accept(acme)
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    claim_for(endpoint, lease_id=lease_of(process.identity(worker.pid)))
    assert (end_leases(), recovered(), states(endpoint)) == (0, 0, ["in_flight"])

    worker.kill()
    worker.communicate()

    assert (end_leases(), recovered(), states(endpoint)) == (1, 1, ["pending"])


def test_the_dead_are_found_and_what_they_held_is_put_back_without_a_sweep(
    acme: Consumer, redis_client: "redis.Redis"
) -> None:
    """Regression: a worker that lived on looked every five seconds, and then left the rest to the next sweep."""
    endpoint = new_endpoint(acme)
    accept(acme)
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    claim_for(endpoint, lease_id=lease_of(process.identity(worker.pid)))
    worker.kill()
    worker.communicate()

    assert end_leases() == 1
    redis_client.zrem(bell.READY, endpoint.id.hex)
    tasks.put_back_of_ended_leases()

    assert states(endpoint) == ["pending"]
    wait_until(lambda: redis_client.zscore(bell.READY, endpoint.id.hex) is not None, seconds=10)


def test_what_a_lease_holds_that_has_merely_run_out_is_left_to_the_sweep(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    claim_for(endpoint, lease_id=lease_of(process.identity()))
    Lease.objects.update(expires_at=clock.now())

    tasks.put_back_of_ended_leases()

    assert states(endpoint) == ["in_flight"]


def test_leases_of_the_living_and_of_other_machines_stay(acme: Consumer) -> None:
    for identity in [process.identity(), "another-boot/1/4711/99", ""]:
        lease_of(identity)

    assert end_leases() == 0
    assert Lease.objects.count() == 3


def test_where_processes_cannot_be_told_apart_no_lease_ends_early() -> None:
    lease_of("")
    with psycopg.connect(database.conninfo(), **database.session()) as connection:
        assert end_leases_of_the_dead(connection, place="", is_dead=lambda known: True) == 0


# ── beat ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_work_that_fails_beside_the_heartbeat_does_not_end_it() -> None:
    """Regression: a Django connection that had died ended the heartbeat of each worker that had stood in for beat."""
    done: list[str] = []

    def fails() -> None:
        done.append("failed")
        raise OperationalError("the connection is closed")

    heartbeat.do_beside(fails)
    heartbeat.do_beside(lambda: done.append("went on"))

    assert done == ["failed", "went on"]


def test_beat_is_silent_from_half_a_minute_after_its_last_task() -> None:
    """Regression: what was counted piled up for as long as no background worker ran. Now others add it up."""
    with psycopg.connect(database.conninfo(), autocommit=True) as connection:
        assert heartbeat.is_beat_silent(connection)

        heartbeat.beat_once(connection, name=heartbeat.BEAT)
        assert not heartbeat.is_beat_silent(connection)

        Pulse.objects.update(at=clock.now() - timedelta(seconds=31))
        assert heartbeat.is_beat_silent(connection)


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ahead_seconds", [3600, -3600])
def test_a_worker_whose_clock_differs_says_so_in_log_row_readyz_and_console(
    ahead_seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(database.conninfo(), **database.session()) as connection, caplog.at_level(logging.WARNING):
        heartbeat.beat_once(connection, name="deliveries1@here", read_clock=lambda: time.time() + ahead_seconds)

    assert caplog.messages == ["clock.differs"]
    pulse = Pulse.objects.get()
    assert pulse.clock_ahead_ms == pytest.approx(ahead_seconds * 1000, abs=60_000)
    assert str(Client().get("/readyz").json()["clock"]).startswith(f"differs by {'+' if ahead_seconds > 0 else '-'}3")
    [alarm] = [alarm for alarm in overview_alarms() if "clock" in alarm]
    assert alarm.startswith("The clock of deliveries1@here differs")


def test_a_worker_whose_clock_agrees_says_nothing_and_readyz_is_content(caplog: pytest.LogCaptureFixture) -> None:
    with psycopg.connect(database.conninfo(), **database.session()) as connection, caplog.at_level(logging.WARNING):
        assert heartbeat.beat_once(connection, name="deliveries1@here") == pytest.approx(0, abs=1)

    assert caplog.messages == []
    assert Client().get("/readyz").json()["clock"] == "ok"
    assert [alarm for alarm in overview_alarms() if "clock" in alarm] == []


def overview_alarms() -> list[str]:
    processes = overview._processes(clock.now())
    return overview._alarms(processes, broker={"is_alive": True}, workers=None)


def test_w05_requests_are_signed_with_the_databases_time_whatever_the_workers_clock_says(acme: Consumer) -> None:
    """Regression: 744 requests were signed an hour off."""
    endpoint = new_endpoint(acme)
    accept(acme)
    [delivery] = claim_for(endpoint).deliveries
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200)

    outcome = asyncio.run(
        attempt(
            delivery,
            transport=httpx.MockTransport(answer),
            schedule=[0],
            user_agent="ours/1",
            is_well=lambda _: True,
            clock_ahead=3600.0,  # as the claim found it
        )
    )

    database_time = clock.now()
    assert int(sent[0].headers["webhook-timestamp"]) + 3600 == pytest.approx(database_time.timestamp(), abs=60)
    assert (outcome.started_at - database_time).total_seconds() + 3600 == pytest.approx(0, abs=60)


def test_a_claim_says_how_far_this_machines_clock_is_ahead(acme: Consumer) -> None:
    assert claim_for(new_endpoint(acme)).clock_ahead == pytest.approx(0, abs=1)
