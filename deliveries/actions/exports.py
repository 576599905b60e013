"""Secrets handed out in a file: the audit log knows before the file does."""

from django.db import transaction

from subscriptions.audit import Actor, record
from subscriptions.models import Endpoint


@transaction.atomic
def secrets_exported(*, actor: Actor, why: str) -> None:
    """Written before the first secret is: whoever stops the export half-way has read some."""
    count = Endpoint.objects.filter(deleted_at__isnull=True).count()
    record(actor=actor, action="secrets.exported", count=count, why=why)
