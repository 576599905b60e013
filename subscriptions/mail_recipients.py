"""Who gets mail about a consumer's endpoints, and about what.

The contact that the producer named is one of them. Others are added in the portal, and hear nothing but one question
until somebody with that mailbox says yes. Each mail holds a link by which its reader stops them without a login.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from subscriptions import ids
from subscriptions.models import AuditEntry, Consumer, MailRecipient

ADDED = "notifications.address_added"
_SALT = "subscriptions.mail_recipients"


class TooManyRecipients(Exception):
    """The consumer has as many addresses as it may, or has added as many today."""


def of(consumer: Consumer) -> QuerySet[MailRecipient]:
    return MailRecipient.objects.filter(consumer=consumer).order_by("-is_contact", "id")


def find(consumer: Consumer, recipient: str) -> MailRecipient | None:
    uuid = ids.parse("rcp", recipient)
    return MailRecipient.objects.filter(consumer=consumer, id=uuid).first() if uuid else None


@transaction.atomic
def follow_contact(consumer: Consumer) -> None:
    """The contact's address is what the consumer says now. One that people chose in the portal as well stays."""
    email = consumer.contact_email.lower()
    MailRecipient.objects.filter(consumer=consumer, is_contact=True).exclude(email=email).delete()
    if email:
        MailRecipient.objects.get_or_create(
            consumer=consumer, email=email, defaults={"is_contact": True, "confirmed_at": timezone.now()}
        )


@transaction.atomic
def add(consumer: Consumer, *, email: str, kinds: list[str]) -> MailRecipient | None:
    """None where the address is there already. The consumer's row is locked: of two at a time, both are counted."""
    Consumer.objects.select_for_update(no_key=True).get(id=consumer.id)
    if MailRecipient.objects.filter(consumer=consumer, email=email.lower()).exists():
        return None
    today = AuditEntry.objects.filter(
        consumer_id=consumer.id, action=ADDED, id__gte=ids.first_at(timezone.now() - timedelta(days=1))
    )
    most = settings.MAX_MAIL_RECIPIENTS_PER_CONSUMER
    if max(of(consumer).count(), today.count()) >= most:
        raise TooManyRecipients
    return MailRecipient.objects.create(consumer=consumer, email=email.lower(), kinds=kinds)


def change(recipient: MailRecipient, *, kinds: list[str]) -> bool:
    return MailRecipient.objects.filter(id=recipient.id).exclude(kinds=kinds).update(kinds=kinds) == 1


def remove(recipient: MailRecipient) -> bool:
    """Not the contact: that is the producer's to change. Choosing nothing for it is the consumer's."""
    return MailRecipient.objects.filter(id=recipient.id, is_contact=False).delete()[0] == 1


def confirm(recipient: MailRecipient) -> bool:
    return _say(recipient, confirmed_at=timezone.now(), stopped_at=None)


def stop(recipient: MailRecipient) -> bool:
    return _say(recipient, stopped_at=timezone.now(), owed_notices=[])


def listening() -> QuerySet[MailRecipient]:
    """Those that may be sent news."""
    return MailRecipient.objects.filter(
        confirmed_at__isnull=False, stopped_at__isnull=True, consumer__deleted_at__isnull=True
    )


def token(recipient: MailRecipient) -> str:
    """Opens the page on which the reader of a mail says yes or no. It does not end: neither does the mail."""
    return signing.Signer(salt=_SALT).sign(recipient.public_id)


def by_token(text: str) -> MailRecipient | None:
    try:
        public_id = signing.Signer(salt=_SALT).unsign(text)
    except signing.BadSignature:
        return None
    uuid = ids.parse("rcp", public_id)
    if uuid is None:
        return None
    living = MailRecipient.objects.filter(id=uuid, consumer__deleted_at__isnull=True)
    return living.select_related("consumer").first()


def _say(recipient: MailRecipient, **said: Any) -> bool:
    """True if this call changed it. Who says the same again changes nothing."""
    same = {"confirmed_at__isnull": False, "stopped_at__isnull": True}
    if said["stopped_at"] is not None:
        same = {"stopped_at__isnull": False}
    others = MailRecipient.objects.filter(id=recipient.id).exclude(**same)
    return others.update(**said) == 1
