"""Signature profiles: made, changed, deleted by operators. An entry's target is the profile's name."""

from typing import Any

from django.db import transaction

from subscriptions.audit import Actor, record
from subscriptions.models import SignatureProfile
from subscriptions.signing import schemes


@transaction.atomic
def create(*, name: str, actor: Actor, why: str, **fields: Any) -> SignatureProfile:
    profile = schemes.create(name=name, **fields)
    profile.refresh_from_db(fields=["created_at"])
    record(actor=actor, action="signature_profile.created", target=name, why=why)
    return profile


@transaction.atomic
def update(profile: SignatureProfile, changes: dict[str, Any], *, actor: Actor, why: str) -> SignatureProfile:
    if changed := schemes.update(profile, changes):
        detail = ", ".join(changed)
        record(actor=actor, action="signature_profile.changed", target=profile.name, detail=detail, why=why)
    return profile


@transaction.atomic
def delete(profile: SignatureProfile, *, actor: Actor, why: str) -> None:
    schemes.delete(profile)
    record(actor=actor, action="signature_profile.deleted", target=profile.name, why=why)
