"""Part of deliver: what becomes of the message that a worker takes while its pump still runs.

A pump runs for hours, and its worker holds the next message meanwhile. RabbitMQ ends the channel of a worker that has
held one for half an hour, and Celery then ends the worker. So a message that waited for long is acknowledged before it
is worked on. No message is precious: one more comes from the queue, and a lost one costs a second.
"""

from typing import Any

from celery.signals import task_received

from deliveries.bell import PUMP

# RabbitMQ's own patience is half an hour; versions of 2021 had a quarter (seconds).
HELD_SECONDS = 600


def acknowledge_in_time(*, task: str = PUMP, seconds: float = HELD_SECONDS) -> None:
    """From now on, in this process: every message for this task."""

    def on_received(sender: Any, request: Any, **_: Any) -> None:
        if request.name == task:
            # Nothing happens where it was acknowledged when its work began.
            sender.timer.call_after(seconds, request.acknowledge)

    task_received.connect(on_received, weak=False, dispatch_uid=f"acknowledge {task}")
