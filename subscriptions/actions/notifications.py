"""Who hears by mail about a consumer's endpoints: added, changed, removed; confirmed and stopped by its reader."""

from django.db import transaction

from subscriptions import mail_recipients
from subscriptions.audit import Actor, record
from subscriptions.models import ActorKind, Consumer, MailRecipient


@transaction.atomic
def add(consumer: Consumer, *, email: str, kinds: list[str], actor: Actor, why: str) -> MailRecipient | None:
    """None where the address is there already."""
    added = mail_recipients.add(consumer, email=email, kinds=kinds)
    if added is not None:
        record(actor=actor, action=mail_recipients.ADDED, target=added.public_id, consumer=consumer, why=why)
    return added


@transaction.atomic
def change(recipient: MailRecipient, *, kinds: list[str], actor: Actor, why: str) -> None:
    if mail_recipients.change(recipient, kinds=kinds):
        _record(recipient, "notifications.kinds_changed", actor, why)


@transaction.atomic
def remove(recipient: MailRecipient, *, actor: Actor, why: str) -> bool:
    removed = mail_recipients.remove(recipient)
    if removed:
        _record(recipient, "notifications.address_removed", actor, why)
    return removed


@transaction.atomic
def confirm(recipient: MailRecipient) -> None:
    """Whoever holds the link of a mail is its reader, and the actor."""
    if mail_recipients.confirm(recipient):
        _record(recipient, "portal.mail_confirmed", _reader(recipient), "")


@transaction.atomic
def stop(recipient: MailRecipient) -> None:
    if mail_recipients.stop(recipient):
        _record(recipient, "portal.mail_stopped", _reader(recipient), "")


def _reader(recipient: MailRecipient) -> Actor:
    return Actor(ActorKind.PORTAL, recipient.public_id, str(recipient.consumer))


def _record(recipient: MailRecipient, action: str, actor: Actor, why: str) -> None:
    record(actor=actor, action=action, target=recipient.public_id, consumer=recipient.consumer_id, why=why)
