"""Which alarm and which advice a backlog deserves."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from deliveries.browse.backlog import Backlog, Owed, WaitReason
from deliveries.console import waiting

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def owed(wait: WaitReason, *, seconds: float = 60, due: int = 10, endpoint_id: UUID | None = None) -> Owed:
    return Owed(endpoint_id or uuid4(), due, 0, NOW - timedelta(seconds=seconds), 0, False, wait)


def test_every_reason_to_wait_has_advice_of_its_own() -> None:
    assert set(WaitReason) | {"slow"} == set(waiting.ADVICE)
    assert len({advice.title for advice in waiting.ADVICE.values()}) == len(waiting.ADVICE)


def test_what_has_been_due_for_a_moment_only_is_not_late() -> None:
    old, fresh = owed(WaitReason.FULL, seconds=31), owed(WaitReason.FULL, seconds=29)
    assert waiting.late(Backlog([old, fresh], is_more=False), now=NOW) == [old]


@pytest.mark.parametrize("wait", set(WaitReason) - {WaitReason.WORKER, WaitReason.SERVED})
def test_endpoints_that_wait_for_a_reason_of_their_own_never_ask_for_workers(wait: WaitReason) -> None:
    assert waiting.worker_alarm([owed(wait)], in_flight=400, slots=400) is None
    assert waiting.worker_alarm([owed(wait)], in_flight=0, slots=0) is None


@pytest.mark.parametrize("wait", [WaitReason.WORKER, WaitReason.SERVED])
def test_late_deliveries_while_every_slot_is_taken_ask_for_workers(wait: WaitReason) -> None:
    alarm = waiting.worker_alarm([owed(wait)], in_flight=380, slots=400)
    assert alarm is not None
    assert alarm.startswith("Too few delivery workers: 380 of 400 slots are taken, and deliveries to 1 endpoint have")


def test_late_deliveries_nobody_takes_although_slots_are_free_send_people_to_the_log() -> None:
    alarm = waiting.worker_alarm([owed(WaitReason.WORKER), owed(WaitReason.WORKER)], in_flight=3, slots=400)
    assert alarm is not None
    assert "to 2 endpoints have been due for more than 30 s although the workers have slots free" in alarm


def test_late_deliveries_while_no_pump_runs_send_people_to_the_workers() -> None:
    alarm = waiting.worker_alarm([owed(WaitReason.WORKER)], in_flight=0, slots=0)
    assert alarm is not None
    assert "no delivery worker is at work on them" in alarm


def test_a_backlog_that_drains_beside_free_slots_is_no_alarm() -> None:
    assert waiting.worker_alarm([owed(WaitReason.SERVED)], in_flight=40, slots=400) is None


def test_groups_name_the_endpoints_that_are_owed_most_and_count_the_rest() -> None:
    full = [owed(WaitReason.FULL, due=number) for number in range(1, 8)]
    slow, held = owed(WaitReason.FULL, due=3), owed(WaitReason.HELD, due=4, seconds=90)
    groups = waiting.groups([*full, slow, held], slow=[slow.endpoint_id])
    assert [(group.advice.title, group.endpoint_count, group.due, group.not_shown) for group in groups] == [
        ("Held", 1, 4, 0),
        ("Full", 7, 28, 2),
        ("Slow", 1, 3, 0),
    ]
    assert groups[1].endpoint_ids[0] == full[-1].endpoint_id
    assert groups[0].oldest_due_at == held.oldest_due_at
