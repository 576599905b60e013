"""The Celery app. Queue `deliveries` carries the pump, queue `background` everything else."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

app = Celery("webhooks_platform")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
