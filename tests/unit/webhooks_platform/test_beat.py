"""webhooks_platform/beat.py: beat has nothing to do between two tasks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule
from django.conf import settings

from webhooks_platform.beat import Scheduler

START = datetime(2026, 3, 1, tzinfo=UTC)
TIME = [START]


def now() -> datetime:
    return TIME[0]


class Recorded(Scheduler):
    sent: list[datetime]

    def apply_async(self, *_: Any, **__: Any) -> None:
        self.sent.append(now())


def test_beat_sleeps_until_a_task_is_due_and_sends_it_then(tmp_path: Path) -> None:
    """Regression: it woke ten milliseconds early, and asked until it was time."""
    TIME[0] = START
    app = Celery(broker="memory://", set_as_current=False)
    beat = Recorded(app, schedule_filename=str(tmp_path / "schedule"))
    every_second = schedule(timedelta(seconds=1), nowfun=now, app=app)
    beat.sent = []
    beat.schedule.clear()
    beat.schedule["sweep"] = ScheduleEntry("sweep", "a.task", START, schedule=every_second, app=app)
    for _ in range(6):
        TIME[0] += timedelta(seconds=beat.tick())
    beat.close()

    seconds = [(at - START).total_seconds() for at in beat.sent]
    assert seconds == pytest.approx([1, 2, 3])


class Waiting:
    """A channel to a Redis in whose queue so many messages wait."""

    def __init__(self, count: int) -> None:
        self.channel = self.client = self
        self._count = count

    def llen(self, queue: str) -> int:
        assert queue == "background"
        return self._count


def test_beat_sends_no_more_while_a_hundred_messages_wait(tmp_path: Path) -> None:
    """They have no time of their own after which they are void: two machines need not agree on the time."""
    app = Celery(broker="memory://", set_as_current=False, task_default_queue="background")
    beat = Scheduler(app, schedule_filename=str(tmp_path / "schedule"))
    entry = ScheduleEntry("sweep", "a.task", START, schedule=schedule(timedelta(seconds=1), app=app), app=app)

    assert beat.apply_async(entry, producer=Waiting(100), advance=False) is None
    assert not beat._is_full("background", Waiting(99))
    assert not beat._is_full("background", None)
    beat.close()


def test_no_task_expires_by_a_machines_clock() -> None:
    """Regression: workers two minutes ahead dropped every message, and nothing was logged."""
    assert [name for name, entry in settings.CELERY_BEAT_SCHEDULE.items() if "expires" in entry["options"]] == []
