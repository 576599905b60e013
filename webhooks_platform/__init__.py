"""The project: settings, Celery app, URLs, health, and the local stack behind `make up`."""

from webhooks_platform.celery import app as celery_app

__all__ = ["celery_app"]
