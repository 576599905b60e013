"""deliveries/portal/notifications.py: who hears of what, chosen on a page."""

import pytest
from django.test import Client
from pytest_django import Settings

from subscriptions import consumers, mail_recipients
from subscriptions.models import AuditEntry, Consumer, Endpoint, MailRecipient
from tests.portal import inside
from tests.walk import new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = "/portal/notifications/"


@pytest.fixture(autouse=True)
def public_url(settings: Settings) -> None:
    settings.PUBLIC_URL = "https://webhooks.test"


@pytest.fixture
def visitor(acme: Consumer) -> Client:
    consumers.update(acme, {"contact_email": "ops@acme.test"})
    return inside(acme)


def chosen(email: str) -> list[str]:
    return MailRecipient.objects.get(email=email).kinds


def test_an_address_is_added_with_what_was_picked_and_waits_for_its_consent(visitor: Client) -> None:
    page = visitor.post(PAGE, {"email": "Dev@acme.test", "kinds": ["recovered", "failing", "nonsense"]}, follow=True)
    assert "We have asked it for its consent by mail." in page.content.decode()
    assert "asked for consent" in page.content.decode()
    assert chosen("dev@acme.test") == ["failing", "recovered"]
    assert MailRecipient.objects.get(email="dev@acme.test").confirmed_at is None


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"email": "nobody", "kinds": "failing"}, "This is no address for mail."),
        ({"email": "a@b.test\nBcc: c@d.test", "kinds": "failing"}, "This is no address for mail."),
        ({"email": "dev@acme.test"}, "Pick what the address hears of."),
        ({"email": "OPS@acme.test", "kinds": "failing"}, "This address is on the list already."),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_is_written(
    visitor: Client, form: dict[str, str], why: str
) -> None:
    before = AuditEntry.objects.count()
    answer = visitor.post(PAGE, form)
    assert (answer.status_code, why in answer.content.decode()) == (400, True)
    assert (MailRecipient.objects.count(), AuditEntry.objects.count()) == (1, before)


def test_an_eleventh_address_is_refused(visitor: Client) -> None:
    statuses = [
        visitor.post(PAGE, {"email": f"{number}@acme.test", "kinds": "failing"}).status_code for number in range(10)
    ]
    assert statuses == [302] * 9 + [400]


def test_without_a_public_url_nobody_is_added_and_the_page_says_so(visitor: Client, settings: Settings) -> None:
    settings.PUBLIC_URL = ""
    assert "Further addresses cannot be added here" in visitor.get(PAGE).content.decode()
    assert visitor.post(PAGE, {"email": "dev@acme.test", "kinds": "failing"}).status_code == 400
    assert MailRecipient.objects.count() == 1


def test_the_contact_may_be_told_nothing_and_is_not_removed(visitor: Client) -> None:
    contact = MailRecipient.objects.get()
    path = f"{PAGE}{contact.public_id}/"
    visitor.post(f"{path}change/", {})
    assert chosen("ops@acme.test") == []
    refused = visitor.post(f"{path}remove/", follow=True)
    assert "Choose nothing for it." in refused.content.decode()
    assert MailRecipient.objects.count() == 1


def test_an_endpoint_is_told_about_the_others_and_keeps_what_it_asks_for(acme: Consumer, visitor: Client) -> None:
    endpoint = new_endpoint(acme, event_types=["invoice.*"])
    new_endpoint(acme)
    given = {"endpoint": endpoint.public_id, "kinds": ["failing", "recovered"]}
    visitor.post(f"{PAGE}webhooks/", given)
    ours = ["notification.endpoint_failing", "notification.endpoint_recovered"]
    assert Endpoint.objects.get(id=endpoint.id).event_types == ["invoice.*", *ours]

    visitor.post(f"{PAGE}webhooks/", {"endpoint": endpoint.public_id})
    assert Endpoint.objects.get(id=endpoint.id).event_types == ["invoice.*"]


def test_an_endpoint_that_asks_for_nothing_else_is_left_as_it_is(acme: Consumer, visitor: Client) -> None:
    endpoint = new_endpoint(acme, event_types=["notification.*"])
    page = visitor.post(f"{PAGE}webhooks/", {"endpoint": endpoint.public_id}, follow=True)
    assert "Delete the endpoint instead." in page.content.decode()
    assert Endpoint.objects.get(id=endpoint.id).event_types == ["notification.*"]


def test_another_consumers_endpoint_cannot_be_chosen(visitor: Client) -> None:
    theirs = new_endpoint(consumers.create(uid="globex"))
    assert visitor.post(f"{PAGE}webhooks/", {"endpoint": theirs.public_id, "kinds": "failing"}).status_code == 404
    assert Endpoint.objects.get(id=theirs.id).event_types == ["*"]


def test_the_link_of_a_mail_shows_nothing_but_its_own_address(visitor: Client, acme: Consumer) -> None:
    mail_recipients.add(acme, email="dev@acme.test", kinds=["failing"])
    contact = MailRecipient.objects.get(email="ops@acme.test")
    page = Client().get(f"/portal/mail/{mail_recipients.token(contact)}/").content.decode()
    assert "ops@acme.test" in page
    assert "dev@acme.test" not in page
