"""The Celery app. Queue `deliveries` carries the pump, queue `background` everything else."""

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

app = Celery("webhooks_platform")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_init.connect
@beat_init.connect
def _refuse_nonsense(**_: Any) -> None:
    from webhooks_platform.checks import refuse_nonsense

    refuse_nonsense()
