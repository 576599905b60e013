"""The Celery app. Queue `deliveries` carries the pump, queue `background` everything else."""

import os
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from celery.signals import beat_init, celeryd_init, setup_logging, task_postrun, task_prerun
from kombu import Connection
from redis.exceptions import OutOfMemoryError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

# Django's own checks look at every page there is, which is most of what the start of a worker would cost. They run with
# every migration; what is wrong in the settings, `_refuse_nonsense` says below.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")

# After a broker that is away was tried, before the next try (seconds).
_BROKER_PAUSE = 0.5


class EvenlyTriedConnection(Connection):
    """A connection to the broker that outlives the broker: every worker and beat have one.

    It tries a broker that is away at an even pace, so that workers are back as soon as it is. Left to itself kombu
    makes each pause two seconds longer, up to half a minute. And closing it never ends a worker.
    """

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        even = {"interval_start": _BROKER_PAUSE, "interval_step": 0, "interval_max": _BROKER_PAUSE}
        return super().ensure_connection(*args, **{**options, **even})

    @property
    def connection_errors(self) -> tuple[type[Exception], ...]:
        """A Redis that is full answers, but takes no note of what a worker has fetched. That passes, as an outage does;
        Celery would end the worker."""
        return (*super().connection_errors, OutOfMemoryError)

    def maybe_close_channel(self, channel: Any) -> None:
        """A channel that holds a message of a broker that has just died puts it back, and so dials once more. Where its
        transport was let go before, kombu fails with an AttributeError, and Celery ends the worker."""
        with suppress(AttributeError):
            super().maybe_close_channel(channel)


class EvenlyTriedBroker(AMQP):
    Connection = EvenlyTriedConnection


app = Celery("webhooks_platform", amqp=EvenlyTriedBroker)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _log_as_django_does(**_: Any) -> None:
    """Django has seen to it. Left to itself, Celery would let through warnings alone, from everybody."""


@celeryd_init.connect
@beat_init.connect
def _refuse_nonsense(**_: Any) -> None:
    from webhooks_platform import error_reports
    from webhooks_platform.checks import refuse_nonsense

    refuse_nonsense()
    error_reports.start()


@celeryd_init.connect
def _wait_for_the_database_no_longer_than_that(**_: Any) -> None:
    from django.conf import settings

    from subscriptions.limits.answer_deadline import deadline

    deadline.seconds = settings.DATABASE_WORKER_ANSWER_SECONDS or None


@task_prerun.connect
@task_postrun.connect
def _leave_dead_connections(**_: Any) -> None:
    """As Django does around each request. Celery would close healthy ones too, after every task, several a second."""
    from django.db import close_old_connections

    close_old_connections()
