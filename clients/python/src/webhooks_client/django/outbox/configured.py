"""The client that the relay uses, from Django's settings or the environment: WEBHOOKS_URL and WEBHOOKS_KEY."""

import os

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from webhooks_client import Client


def client() -> Client:
    url, key = (getattr(settings, name, None) or os.environ.get(name) for name in ("WEBHOOKS_URL", "WEBHOOKS_KEY"))
    if not url or not key:
        raise ImproperlyConfigured("Set WEBHOOKS_URL and WEBHOOKS_KEY (a producer's key).")
    return Client(url, key)
