"""webhooks_platform/beat.py: beat has nothing to do between two tasks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

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
