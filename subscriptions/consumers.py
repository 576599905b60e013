"""Consumers: found by our id or by the producer's own uid, interchangeably."""

import re
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from subscriptions import ids, mail_recipients
from subscriptions.access import key_tree
from subscriptions.models import ApiKey, Consumer, Endpoint

UID_RULE = "Letters, digits and . _ : @ ~ + - only, starting with a letter or digit, and not with `con_`."
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@~+\-]{0,254}")
# The same for others to check by.
UID_PATTERN = f"^(?!con_){_UID.pattern}$"


class UidTaken(Exception):
    """Another consumer has this uid."""


def is_uid(text: str) -> bool:
    """Whether a producer may call a consumer so: it is part of addresses, and never looks like an id of ours."""
    return _UID.fullmatch(text) is not None and not text.startswith("con_")


def find(name: str) -> Consumer | None:
    living = Consumer.objects.filter(deleted_at__isnull=True)
    uuid = ids.parse("con", name)
    return living.filter(id=uuid).first() if uuid else living.filter(uid=name).first()


def create(
    *, uid: str | None, name: str = "", contact_email: str = "", metadata: dict[str, Any] | None = None
) -> Consumer:
    try:
        with transaction.atomic():
            made = Consumer.objects.create(uid=uid, name=name, contact_email=contact_email, metadata=metadata or {})
            mail_recipients.follow_contact(made)
            return made
    except IntegrityError:
        raise UidTaken from None


def update(consumer: Consumer, changes: dict[str, Any]) -> Consumer | None:
    """None if it has been deleted meanwhile: a uid written then would be nobody's, and taken for ever."""
    living = Consumer.objects.filter(id=consumer.id, deleted_at__isnull=True)
    try:
        with transaction.atomic():
            if changes and not living.update(**changes):
                return None
            if "contact_email" in changes:
                consumer.contact_email = changes["contact_email"]
                mail_recipients.follow_contact(consumer)
    except IntegrityError:
        raise UidTaken from None
    for field, value in changes.items():
        setattr(consumer, field, value)
    return consumer


@transaction.atomic
def delete(consumer: Consumer) -> None:
    """Gone for everyone: keys stop working, endpoints stop receiving, the uid is free again. History stays."""
    now = timezone.now()
    key_tree.revoke(ApiKey.objects.filter(consumer=consumer).values_list("id", flat=True))
    living = Endpoint.objects.filter(consumer=consumer, deleted_at__isnull=True)
    # Locked in id order, as by everybody who locks several.
    list(living.select_for_update(no_key=True).order_by("id").values_list("id"))
    living.update(deleted_at=now, updated_at=now)
    Consumer.objects.filter(id=consumer.id).update(deleted_at=now, uid=None)
