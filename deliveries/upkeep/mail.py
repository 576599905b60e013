"""Mail to those whom consumers chose: one that asks for their consent, then news of endpoints, several in one mail.

announce.py notes on each recipient what it is owed, in the transaction that announces it. What fails is tried again for
a day. A recipient gets at most one mail in NOTIFICATION_MINUTES; what comes meanwhile is in the next one.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from smtplib import SMTPException
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q
from django.urls import reverse

from deliveries.health.models import Notice, NoticeKind
from deliveries.sql import clock
from subscriptions import mail_recipients
from subscriptions.models import Consumer, MailKind, MailRecipient

KINDS = {
    NoticeKind.WARNING: MailKind.FAILING,
    NoticeKind.LAST_WARNING: MailKind.DISABLING,
    NoticeKind.DISABLED: MailKind.DISABLED,
    NoticeKind.RECOVERED: MailKind.RECOVERED,
}
_TEXTS = {
    MailKind.FAILING: (
        "Your webhook endpoint is failing",
        "What is owed to it is kept, and goes out once it answers with a 2xx status again.",
    ),
    MailKind.DISABLING: (
        "Your webhook endpoint will be disabled soon",
        "What is owed to it is kept. It goes on being tried as soon as it answers with a 2xx status again.",
    ),
    MailKind.DISABLED: (
        "Your webhook endpoint was disabled",
        "Nothing more is sent to it. What is owed to it is kept, and goes out once you resume the endpoint.",
    ),
    MailKind.RECOVERED: ("Your webhook endpoint works again", "What was owed to it is on its way."),
}
_AT_A_TIME = 100
# What one mail tells of; of more, the newest.
_MOST_OWED = 100
# Nobody else takes a recipient while its mail is on its way; longer than a mail server may take.
_ON_ITS_WAY = timedelta(minutes=5)
_GIVE_UP_AFTER = timedelta(days=1)
_FAILURES_WAIT = (1, 5, 15, 60)  # minutes

logger = logging.getLogger(__name__)


def owe(notices: Sequence[Notice]) -> None:
    """Notes what each recipient will be told of. Within the transaction that announces them."""
    told: dict[UUID, list[tuple[str, UUID]]] = {}
    for notice in notices:
        if notice.kind in KINDS:
            kind = KINDS[NoticeKind(notice.kind)]
            told.setdefault(notice.endpoint.consumer_id, []).append((kind.value, notice.id))
    if not told:
        return
    recipients = mail_recipients.listening().filter(consumer_id__in=told).exclude(kinds=[])
    for recipient in recipients.select_for_update(of=("self",), no_key=True).order_by("id"):
        news = [notice_id for kind, notice_id in told[recipient.consumer_id] if kind in recipient.kinds]
        if news:
            recipient.owed_notices = [*recipient.owed_notices, *news][-_MOST_OWED:]
            recipient.save(update_fields=["owed_notices"])


def send_due() -> int:
    """Sends what may go out now and says how many mails that were."""
    now = clock.now()
    unasked = Q(asked_at__isnull=True, confirmed_at__isnull=True, stopped_at__isnull=True)
    due = MailRecipient.objects.filter(unasked | ~Q(owed_notices=[]), opens_at__lte=now)
    return sum(_send(recipient_id) for recipient_id in due.values_list("id", flat=True)[:_AT_A_TIME])


def _send(recipient_id: UUID) -> bool:
    """Taken, sent, settled: no transaction is open while the mail server is asked."""
    now = clock.now()
    mine = MailRecipient.objects.filter(id=recipient_id, opens_at__lte=now)
    if not mine.update(opens_at=now + _ON_ITS_WAY):
        return False
    recipient = MailRecipient.objects.select_related("consumer").get(id=recipient_id)
    owed = list(recipient.owed_notices)
    notices = list(Notice.objects.filter(id__in=owed).select_related("endpoint").order_by("id"))
    mail = _news(recipient, notices) if recipient.confirmed_at else _question(recipient)
    try:
        sent = mail is not None and mail.send() == 1
    except (OSError, SMTPException) as error:
        logger.warning("mail.failed", extra={"fields": {"recipient": recipient.public_id, "error": repr(error)}})
        _settle_failure(recipient_id, notices, now=now)
        return False
    _settle(recipient_id, owed, asked=not recipient.confirmed_at, now=now)
    return sent


@transaction.atomic
def _settle(recipient_id: UUID, told: list[UUID], *, asked: bool, now: datetime) -> None:
    recipient = MailRecipient.objects.select_for_update(no_key=True).filter(id=recipient_id).first()
    if recipient is None:
        return
    recipient.owed_notices = [each for each in recipient.owed_notices if each not in told]
    recipient.opens_at, recipient.failure_count = now + timedelta(minutes=settings.NOTIFICATION_MINUTES), 0
    recipient.asked_at = now if asked else recipient.asked_at
    recipient.save(update_fields=["owed_notices", "opens_at", "failure_count", "asked_at"])


@transaction.atomic
def _settle_failure(recipient_id: UUID, notices: Sequence[Notice], *, now: datetime) -> None:
    """What is older than a day is no longer worth a mail: it is on record, and on the pages."""
    recipient = MailRecipient.objects.select_for_update(no_key=True).filter(id=recipient_id).first()
    if recipient is None:
        return
    old = {notice.id for notice in notices if notice.created_at < now - _GIVE_UP_AFTER}
    recipient.owed_notices = [each for each in recipient.owed_notices if each not in old]
    wait = _FAILURES_WAIT[min(recipient.failure_count, len(_FAILURES_WAIT) - 1)]
    recipient.opens_at, recipient.failure_count = now + timedelta(minutes=wait), min(recipient.failure_count + 1, 1000)
    if recipient.confirmed_at is None and recipient.created_at < now - _GIVE_UP_AFTER:
        recipient.asked_at = now
    recipient.save(update_fields=["owed_notices", "opens_at", "failure_count", "asked_at"])


def _news(recipient: MailRecipient, notices: Sequence[Notice]) -> EmailMessage | None:
    if not notices or recipient.stopped_at is not None:
        return None
    parts = [_paragraph(notice) for notice in notices]
    subject = _TEXTS[KINDS[NoticeKind(notices[0].kind)]][0]
    if len(notices) > 1:
        subject = f"{len(notices)} notices about your webhook endpoints"
        parts = [
            f"{_TEXTS[KINDS[NoticeKind(notice.kind)]][0]}:\n{part}" for notice, part in zip(notices, parts, strict=True)
        ]
    end = "Which mails come, and to whom, is chosen in the portal under Notifications."
    if settings.PUBLIC_URL:
        end += f"\nStop them at this address: {_page_of(recipient)}"
    return _mail(recipient, subject, "\n\n".join([*parts, f"-- \n{end}"]))


def _paragraph(notice: Notice) -> str:
    link = ""
    if settings.PUBLIC_URL:
        address = reverse("portal:endpoint", args=[notice.endpoint.public_id])
        link = f"\n\nIts page in the portal: {settings.PUBLIC_URL}{address}"
    advice = _TEXTS[KINDS[NoticeKind(notice.kind)]][1]
    return f"{notice.endpoint.url}\n\n{notice.reason}\n\n{advice}{link}"


def _question(recipient: MailRecipient) -> EmailMessage:
    text = (
        f"Somebody at {_name(recipient.consumer)} asked that this address be told when one of their webhook endpoints"
        f" fails, is disabled or works again.\n\nSay yes or no here: {_page_of(recipient)}\n\n"
        "Without an answer, no further mail comes."
    )
    return _mail(recipient, "Do you want mail about webhook endpoints?", text)


def _mail(recipient: MailRecipient, subject: str, text: str) -> EmailMessage:
    headers = {"Auto-Submitted": "auto-generated"}
    if settings.PUBLIC_URL:
        headers["List-Unsubscribe"] = f"<{_page_of(recipient)}>"
    return EmailMessage(f"{settings.PORTAL_NAME}: {subject}", text, None, [recipient.email], headers=headers)


def _page_of(recipient: MailRecipient) -> str:
    return f"{settings.PUBLIC_URL}{reverse('portal:mail', args=[mail_recipients.token(recipient)])}"


def _name(consumer: Consumer) -> str:
    # Of one line: it is part of a sentence that strangers read.
    return " ".join((consumer.name or str(consumer)).split())[:80]
