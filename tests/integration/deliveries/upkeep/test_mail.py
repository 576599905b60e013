"""deliveries/upkeep/mail.py: who gets mail about what, in how many mails, and what becomes of those that fail."""

import re
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.test import Client
from pytest_django import Settings

from deliveries.health import lifecycle
from deliveries.health.breaker import Breaker
from deliveries.health.models import Notice
from deliveries.upkeep import announce, mail, overdue
from subscriptions import consumers, mail_recipients
from subscriptions.actions import notifications as actions
from subscriptions.audit import Actor
from subscriptions.models import Consumer, Endpoint, MailKind, MailRecipient
from tests.walk import accept, answered, claim_for, new_endpoint, pass_time, settle_all

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)
OLGA = Actor.of_user("olga")
HERE = "https://webhooks.test"


class DownBackend(BaseEmailBackend):
    """A mail server that is away."""

    def send_messages(self, email_messages: Any) -> int:
        raise ConnectionRefusedError("no mail today")


@pytest.fixture(autouse=True)
def public_url(settings: Settings) -> None:
    settings.PUBLIC_URL = HERE


@pytest.fixture
def acme(db: None) -> Consumer:
    return consumers.create(uid="acme", contact_email="Ops@acme.test")


def fail_for(endpoint: Endpoint, *, days: int) -> None:
    for day in range(days + 1):
        pass_time(days=1 if day else 0)
        for claimed in claim_for(endpoint, limit=1).deliveries:
            settle_all(answered(claimed, 500), breaker=NEVER)
        overdue.watch_failing()
        tell()


def failing(consumer: Consumer, *, days: int) -> Endpoint:
    endpoint = new_endpoint(consumer, retry_schedule=[0] * 20)
    accept(consumer)
    fail_for(endpoint, days=days)
    return endpoint


def succeed(endpoint: Endpoint) -> None:
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 200))


def tell() -> None:
    announce.announce_next()
    mail.send_due()


def subjects(outbox: list[EmailMessage], to: str = "ops@acme.test") -> list[str]:
    return [each.subject.removeprefix("Webhooks: ") for each in outbox if each.to == [to]]


def add(consumer: Consumer, email: str, *kinds: str) -> MailRecipient:
    added = actions.add(consumer, email=email, kinds=list(kinds or MailKind.values), actor=OLGA, why="")
    assert added is not None
    return added


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_contact_hears_of_the_whole_story_with_what_to_do(
    acme: Consumer, mailoutbox: list[EmailMessage], settings: Settings
) -> None:
    endpoint = failing(acme, days=5)
    lifecycle.resume(endpoint, reason="fixed")
    pass_time(hours=1)
    succeed(endpoint)
    tell()

    assert subjects(mailoutbox) == [
        "Your webhook endpoint is failing",
        "Your webhook endpoint will be disabled soon",
        "Your webhook endpoint was disabled",
        "Your webhook endpoint works again",
    ]
    assert all(each.from_email == settings.DEFAULT_FROM_EMAIL for each in mailoutbox)
    assert all(endpoint.url in each.body for each in mailoutbox)
    assert all(f"{HERE}/portal/endpoints/{endpoint.public_id}/" in each.body for each in mailoutbox)
    assert "for a day." in mailoutbox[0].body
    assert "will be disabled in a day" in mailoutbox[1].body
    assert "goes out once you resume the endpoint" in mailoutbox[2].body


def test_a_recovery_after_a_moved_url_is_told(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    """Regression: a change of the URL forgot that people had been warned."""
    endpoint = failing(acme, days=1)
    lifecycle.update(endpoint, {"url": "https://elsewhere.test/hook"})
    pass_time(hours=1)
    succeed(endpoint)
    tell()
    assert subjects(mailoutbox)[-1] == "Your webhook endpoint works again"


def test_a_recovery_after_a_410_is_told(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    """Regression: only warnings were followed by news of the recovery."""
    endpoint = new_endpoint(acme, retry_schedule=[0] * 20)
    accept(acme, 2)
    claimed, other = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 410), answered(other, 500))
    tell()
    lifecycle.resume(endpoint, reason="fixed")
    pass_time(hours=1)
    succeed(endpoint)
    tell()
    assert subjects(mailoutbox) == ["Your webhook endpoint was disabled", "Your webhook endpoint works again"]


def test_pausing_and_resuming_what_works_is_no_news(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    lifecycle.pause(endpoint, reason="test")
    lifecycle.resume(endpoint, reason="test")
    succeed(endpoint)
    tell()
    assert mailoutbox == []
    assert set(Notice.objects.values_list("kind", flat=True)) == {"paused", "resumed"}


def test_a_dead_letter_by_itself_is_no_reason_for_a_mail(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 500), breaker=NEVER)
    tell()
    assert mailoutbox == []


def test_a_consumer_without_a_contact_gets_no_mail(db: None, mailoutbox: list[EmailMessage]) -> None:
    failing(consumers.create(uid="quiet"), days=1)
    assert mailoutbox == []


def test_without_a_public_url_mail_holds_no_link(
    acme: Consumer, mailoutbox: list[EmailMessage], settings: Settings
) -> None:
    settings.PUBLIC_URL = ""
    endpoint = failing(acme, days=1)
    [only] = mailoutbox
    assert "http" not in only.body.replace(endpoint.url, "")
    assert "List-Unsubscribe" not in only.extra_headers


# ── to whom ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_address_hears_of_what_was_chosen_for_it(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    actions.change(mail_recipients.of(acme)[0], kinds=["disabled"], actor=OLGA, why="")
    actions.confirm(add(acme, "dev@acme.test", "failing"))
    failing(acme, days=5)
    assert subjects(mailoutbox) == ["Your webhook endpoint was disabled"]
    assert subjects(mailoutbox, "dev@acme.test") == ["Your webhook endpoint is failing"]


def test_a_new_address_gets_one_question_and_nothing_else_until_it_says_yes(
    acme: Consumer, mailoutbox: list[EmailMessage]
) -> None:
    add(acme, "dev@acme.test")
    failing(acme, days=1)
    assert subjects(mailoutbox, "dev@acme.test") == ["Do you want mail about webhook endpoints?"]
    question = next(each for each in mailoutbox if each.to == ["dev@acme.test"])
    [link] = re.findall(rf"{HERE}(/portal/mail/\S+)", str(question.body))
    reader = Client()
    assert reader.get(link).status_code == 200
    assert MailRecipient.objects.get(email="dev@acme.test").confirmed_at is None

    reader.post(link, {"answer": "yes"})
    endpoint = Endpoint.objects.get()
    fail_for(endpoint, days=4)
    assert subjects(mailoutbox, "dev@acme.test")[1:] == [
        "Your webhook endpoint will be disabled soon", "Your webhook endpoint was disabled",
    ]  # fmt: skip


def test_whoever_reads_a_mail_can_stop_them_without_a_login(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    failing(acme, days=1)
    link = mailoutbox[0].extra_headers["List-Unsubscribe"].strip("<>").removeprefix(HERE)
    assert link in mailoutbox[0].body
    stopped = Client().post(link, {"answer": "no"}, follow=True)
    assert "No more mail about the endpoints of acme" in stopped.content.decode()

    fail_for(Endpoint.objects.get(), days=4)
    assert len(mailoutbox) == 1


@pytest.mark.parametrize("token", ["nonsense", "rcp_01m7h3xmx1es6vbckezbxg7h8a:forged", "rcp_0:x"])
def test_a_made_up_link_stops_nothing(acme: Consumer, token: str) -> None:
    assert Client().post(f"/portal/mail/{token}/", {"answer": "no"}).status_code == 404
    assert MailRecipient.objects.get().stopped_at is None


def test_the_contact_follows_what_the_producer_says(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    consumers.update(acme, {"contact_email": "new@acme.test"})
    failing(acme, days=1)
    assert [each.to for each in mailoutbox] == [["new@acme.test"]]
    consumers.update(acme, {"contact_email": ""})
    assert not MailRecipient.objects.exists()


def test_a_deleted_consumer_gets_no_mail(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    endpoint = failing(acme, days=0)
    consumers.delete(acme)
    fail_for(endpoint, days=2)
    assert mailoutbox == []


# ── how often ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_happens_within_minutes_is_in_one_mail(acme: Consumer, mailoutbox: list[EmailMessage]) -> None:
    endpoints = [new_endpoint(acme, url=f"https://r{number}.test/", retry_schedule=[0] * 9) for number in range(3)]
    accept(acme)
    for endpoint in endpoints:
        [claimed] = claim_for(endpoint).deliveries
        settle_all(answered(claimed, 410))
        tell()
    assert len(mailoutbox) == 1
    pass_time(minutes=11)
    mail.send_due()
    assert subjects(mailoutbox) == ["Your webhook endpoint was disabled", "2 notices about your webhook endpoints"]
    assert all(endpoint.url in mailoutbox[1].body for endpoint in endpoints[1:])
    mail.send_due()
    assert len(mailoutbox) == 2


def test_a_mail_server_that_is_away_holds_nothing_up_and_gets_it_later(
    acme: Consumer, mailoutbox: list[EmailMessage], settings: Settings
) -> None:
    working, settings.EMAIL_BACKEND = settings.EMAIL_BACKEND, f"{__name__}.DownBackend"
    failing(acme, days=1)
    assert not Notice.objects.filter(announced_at__isnull=True).exists()
    settings.EMAIL_BACKEND = working
    mail.send_due()
    assert mailoutbox == []  # it was tried a moment ago
    pass_time(minutes=2)
    mail.send_due()
    assert subjects(mailoutbox) == ["Your webhook endpoint is failing"]


def test_what_could_not_be_sent_for_a_day_is_given_up(
    acme: Consumer, mailoutbox: list[EmailMessage], settings: Settings
) -> None:
    working, settings.EMAIL_BACKEND = settings.EMAIL_BACKEND, f"{__name__}.DownBackend"
    failing(acme, days=1)
    pass_time(days=2)
    mail.send_due()
    settings.EMAIL_BACKEND = working
    pass_time(days=1)
    assert (mail.send_due(), mailoutbox, MailRecipient.objects.get().owed_notices) == (0, [], [])


def test_a_consumer_has_so_many_addresses_and_adds_so_many_a_day(acme: Consumer, settings: Settings) -> None:
    settings.MAX_MAIL_RECIPIENTS_PER_CONSUMER = 3
    added = [add(acme, f"{number}@acme.test") for number in range(2)]
    with pytest.raises(mail_recipients.TooManyRecipients):
        add(acme, "3@acme.test")
    for each in added:
        actions.remove(each, actor=OLGA, why="")
    actions.remove(add(acme, "4@acme.test"), actor=OLGA, why="")
    with pytest.raises(mail_recipients.TooManyRecipients):
        add(acme, "5@acme.test")
