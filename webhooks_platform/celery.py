"""The Celery app. Queue `deliveries` carries the pump, queue `background` everything else."""

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init, setup_logging, task_postrun, task_prerun

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

app = Celery("webhooks_platform")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _log_as_django_does(**_: Any) -> None:
    """Django has seen to it. Left to itself, Celery would let through warnings alone, from everybody."""


@celeryd_init.connect
@beat_init.connect
def _refuse_nonsense(**_: Any) -> None:
    from webhooks_platform.checks import refuse_nonsense

    refuse_nonsense()


@task_prerun.connect
@task_postrun.connect
def _leave_dead_connections(**_: Any) -> None:
    """As Django does around each request. Celery would close healthy ones too, after every task, several a second."""
    from django.db import close_old_connections

    close_old_connections()
