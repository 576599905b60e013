"""A little of `make faults` (tests/faults/harness/): the exact kill points, and that the audit sees what is wrong."""

from collections.abc import Iterator

import pytest

from tests.faults.harness.faults import FAULTS
from tests.faults.harness.receiver import running_receivers
from tests.faults.harness.rounds import Fault, Scene, Session, check_tables, running_session

pytestmark = [pytest.mark.timeout(300)]

SHORT = {"DELIVERY_LEASE_SECONDS": "3", "DELIVERY_LEASE_RENEW_SECONDS": "1", "DELIVERY_SWEEP_SECONDS": "0.3"}
KILL_POINTS = ("web-before-commit", "web-after-commit", "worker-after-claim", "worker-before-settle")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with running_receivers() as receivers, running_session(receivers, **SHORT) as running:
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
