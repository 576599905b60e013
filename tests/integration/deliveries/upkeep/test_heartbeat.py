"""deliveries/upkeep/heartbeat.py: whose leases end because their worker died on this machine."""

import subprocess
import sys
from uuid import UUID

import psycopg
import pytest

from deliveries.claim import end_leases_of_the_dead, renew_lease
from deliveries.models import Lease
from deliveries.pump import database, process
from subscriptions import ids
from subscriptions.models import Consumer
from tests.integration.deliveries.test_sweep import recovered
from tests.walk import accept, claim_for, new_endpoint, states, with_connection

pytestmark = pytest.mark.django_db(transaction=True)


def lease_of(identity: str) -> UUID:
    lease_id = ids.new_uuid()
    with_connection(lambda own: renew_lease(own, lease_id=lease_id, worker="here:1", seconds=3600, process=identity))
    return lease_id


def end_leases() -> int:
    with psycopg.connect(database.conninfo(), autocommit=True) as connection:
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


def test_leases_of_the_living_and_of_other_machines_stay(acme: Consumer) -> None:
    for identity in [process.identity(), "another-boot/1/4711/99", ""]:
        lease_of(identity)

    assert end_leases() == 0
    assert Lease.objects.count() == 3


def test_where_processes_cannot_be_told_apart_no_lease_ends_early() -> None:
    lease_of("")
    with psycopg.connect(database.conninfo(), autocommit=True) as connection:
        assert end_leases_of_the_dead(connection, place="", is_dead=lambda known: True) == 0
