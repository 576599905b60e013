"""Every secret sealed anew, under the first of ENCRYPTION_KEYS."""

from django.db import transaction

from subscriptions.audit import Actor, record
from subscriptions.secrets import reencrypt
from subscriptions.secrets.vault import Vault


def reencrypt_all(vault: Vault, *, actor: Actor, why: str) -> int:
    """How many rows changed. Each has its own transaction, so the entry tells of those done, also after a stop."""
    changed = 0
    try:
        for is_changed in reencrypt.reencrypt_each(vault):
            changed += is_changed
    finally:
        if changed:
            with transaction.atomic():
                record(actor=actor, action="secrets.reencrypted", count=changed, why=why)
    return changed
