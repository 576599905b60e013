"""Notifications as a consumer's people get them: chosen in the portal, sent over SMTP to a mail server on a socket, and
as webhooks to another endpoint."""

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django import Settings

from deliveries.health import lifecycle
from deliveries.health.breaker import Breaker
from deliveries.models import Delivery
from deliveries.upkeep import announce, mail, overdue
from subscriptions.models import Consumer, Endpoint
from tests.portal import inside
from tests.smtp import MailServer, mail_server
from tests.walk import accept, answered, claim_for, new_endpoint, pass_time, settle_all

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)
HERE = "https://webhooks.test"
KINDS = ("failing", "disabling", "disabled", "recovered")


@pytest.fixture
def mails(settings: Settings) -> Iterator[MailServer]:
    with mail_server() as server:
        settings.PUBLIC_URL = HERE
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        yield server


def link_in(text: str) -> str:
    [found] = re.findall(rf"{HERE}(/portal/mail/\S+)", text)
    return str(found)


def tell() -> None:
    announce.announce_next()
    mail.send_due()


def fail_for(endpoint: Endpoint, *, days: int) -> None:
    for day in range(days + 1):
        pass_time(days=1 if day else 0)
        for claimed in claim_for(endpoint, limit=1).deliveries:
            settle_all(answered(claimed, 500), breaker=NEVER)
        overdue.watch_failing()
        tell()


def test_an_address_says_yes_by_mail_and_hears_of_an_outage_from_its_first_day_to_its_end(
    mails: MailServer, acme: Consumer
) -> None:
    visitor = inside(acme)
    visitor.post("/portal/notifications/", {"email": "dev@acme.test", "kinds": KINDS})
    mail.send_due()
    [question] = mails.mails
    page = link_in(question.get_content())
    Client().post(page, {"answer": "yes"})
    pass_time(hours=1)

    endpoint = new_endpoint(acme, retry_schedule=[0] * 20)
    accept(acme)
    fail_for(endpoint, days=5)
    lifecycle.resume(endpoint, reason="fixed")
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 200))
    pass_time(hours=1)
    tell()

    assert [(each["To"], each["Subject"]) for each in mails.mails] == [
        ("dev@acme.test", "Webhooks: Do you want mail about webhook endpoints?"),
        ("dev@acme.test", "Webhooks: Your webhook endpoint is failing"),
        ("dev@acme.test", "Webhooks: Your webhook endpoint will be disabled soon"),
        ("dev@acme.test", "Webhooks: Your webhook endpoint was disabled"),
        ("dev@acme.test", "Webhooks: Your webhook endpoint works again"),
    ]
    assert f"{HERE}/portal/endpoints/{endpoint.public_id}/" in mails.mails[1].get_content()
    assert mails.mails[1]["List-Unsubscribe"].strip() == f"<{HERE}{page}>"

    # The link at the end of each stops them.
    Client().post(page, {"answer": "no"})
    accept(acme)
    fail_for(endpoint, days=2)
    assert len(mails.mails) == 5


def test_the_same_news_arrive_as_webhooks_at_the_endpoint_that_was_chosen(mails: MailServer, acme: Consumer) -> None:
    listening = new_endpoint(acme, url="https://on-call.test/hook", event_types=["order.made"])
    visitor = inside(acme)
    visitor.post("/portal/notifications/webhooks/", {"endpoint": listening.public_id, "kinds": KINDS})

    endpoint = new_endpoint(acme, retry_schedule=[0] * 20, event_types=["invoice.paid"])
    accept(acme)
    fail_for(endpoint, days=5)

    got = Delivery.objects.filter(endpoint=listening).order_by("event_id").values_list("event__type", flat=True)
    assert list(got) == [
        "notification.endpoint_failing", "notification.endpoint_disabling", "notification.endpoint_disabled",
    ]  # fmt: skip
    assert mails.mails == []
