"""S16: everything a consumer changes in the portal leaves exactly one audit entry, named after its session.

Generated from the portal's URL map: a new address that takes a POST fails here until it is described.
"""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.health import lifecycle
from deliveries.portal import site
from subscriptions import endpoints, keys, mail_recipients
from subscriptions.models import AuditEntry, Consumer, Endpoint, PortalVisit, Role
from tests.audit import entries
from tests.console import dead_letters
from tests.portal import inside, link
from tests.receiver import Receiver
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

PATHS = {
    str(pattern.name): "/portal/" + re.sub("<str:([a-z]+)>", r"{\1}", str(pattern.pattern))
    for pattern in site.urlpatterns
}
EXEMPT = {
    "signatures": "works something out and keeps nothing",
    "mail": "by the link of a mail, without a session: see below",
}
FORM = {
    "url": "https://receiver.test/hook", "event_types": "invoice.*", "description": "Ours",
    "signature_scheme": "standard", "max_in_flight": "7", "rate_limit_per_second": "", "timeout_seconds": "20",
}  # fmt: skip
# What each writes: the action, its target and how many.
ACTIONS: dict[str, tuple[dict[str, str], str, str, int]] = {
    "enter": ({}, "portal.opened", "{consumer}", 1),
    "leave": ({}, "portal.left", "{consumer}", 1),
    "endpoint-new": (FORM, "endpoint.created", "{new}", 1),
    "endpoint-edit": (FORM, "endpoint.changed", "{endpoint}", 1),
    "pause": ({}, "endpoint.paused", "{endpoint}", 1),
    "resume": ({}, "endpoint.resumed", "{endpoint}", 1),
    "rotate-secret": ({"overlap_seconds": "60"}, "endpoint.secret_rotated", "{endpoint}", 1),
    "check-up": ({}, "endpoint.checked_up", "{endpoint}", 1),
    "replay-dead": ({}, "replay.started", "{new}", 2),
    "endpoint-delete": ({}, "endpoint.deleted", "{endpoint}", 1),
    "expire-secret": ({}, "endpoint.previous_secret_expired", "{endpoint}", 1),
    "test": ({"type": "webhook.test", "data": "{}"}, "endpoint.tested", "{endpoint}", 1),
    "keys": ({"scopes": "events:read", "ends": "7"}, "key.issued", "{new}", 1),
    "key-revoke": ({}, "key.revoked", "{key}", 1),
    "missed": ({"within": "7d"}, "replay.started", "{new}", 1),
    "replay-new": ({"state": "dead"}, "replay.started", "{new}", 2),
    "replay-cancel": ({}, "replay.cancelled", "{replay}", 2),
    "notifications": ({"email": "b@acme.test", "kinds": "failing"}, "notifications.address_added", "{new}", 1),
    "notification-webhooks": ({"endpoint": "{endpoint}", "kinds": "failing"}, "endpoint.changed", "{endpoint}", 1),
    "recipient-change": ({"kinds": "disabled"}, "notifications.kinds_changed", "{recipient}", 1),
    "recipient-remove": ({}, "notifications.address_removed", "{recipient}", 1),
    "delivery-replay": ({}, "delivery.replayed", "{delivery}", 1),
}


@pytest.fixture(autouse=True)
def public_url(settings: Settings) -> None:
    settings.PUBLIC_URL = "https://webhooks.test"


def things(acme: Consumer, receiver: Receiver) -> dict[str, str]:
    accept(acme, type="order.made")
    endpoint, [delivery, _] = dead_letters(acme, 2, url=receiver.url)
    key, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    job = replay.start(Filter(consumer_id=acme.id), consumer=acme, rate_per_second=1, requested_by="test", why="")
    token = link(acme).split("/")[3]
    recipient = mail_recipients.add(acme, email="a@acme.test", kinds=["failing"])
    assert recipient is not None
    return {
        "consumer": acme.public_id, "endpoint": endpoint.public_id, "delivery": delivery.public_id, "token": token,
        "replay": job.public_id, "key": key.public_id, "test": "tst_0", "type": "invoice.paid", "colour": "3451d1",
        "recipient": recipient.public_id,
    }  # fmt: skip


@pytest.mark.parametrize("name", ACTIONS)
def test_s16_a_change_in_the_portal_leaves_exactly_one_entry(name: str, acme: Consumer, receiver: Receiver) -> None:
    given: dict[str, Any] = things(acme, receiver)
    client = Client() if name == "enter" else inside(acme)
    if name == "expire-secret":
        endpoints.rotate_secret(Endpoint.objects.order_by("id")[0], overlap_seconds=60)
    if name == "missed":
        given["endpoint"] = new_endpoint(acme, event_types=["order.*"]).public_id
    if name == "resume":
        lifecycle.pause(Endpoint.objects.order_by("id")[0], reason="for the test")
    AuditEntry.objects.all().delete()
    form, action, target, count = ACTIONS[name]

    answer = client.post(
        PATHS[name].format(**given),
        {field: value.format(**given) if value != "{}" else value for field, value in form.items()},
    )

    assert answer.status_code in (200, 302)
    [entry] = entries()
    visit = PortalVisit.objects.exclude(opened_at=None).get()
    if target == "{new}":
        given["new"] = entry.target
        assert entry.target not in (given["endpoint"], given["delivery"])
    who = f"portal {visit.public_id} of acme"
    assert entry == (who, action, target.format(**given), count, "")


@pytest.mark.parametrize(("answer", "action"), [("yes", "portal.mail_confirmed"), ("no", "portal.mail_stopped")])
def test_s16_what_the_reader_of_a_mail_says_leaves_one_entry_however_often(
    answer: str, action: str, acme: Consumer
) -> None:
    recipient = mail_recipients.add(acme, email="a@acme.test", kinds=["failing"])
    assert recipient is not None
    path = f"/portal/mail/{mail_recipients.token(recipient)}/"
    for _ in range(2):
        assert Client().post(path, {"answer": answer}).status_code == 302
    Client().post(path, {"answer": "perhaps"})
    assert entries() == [(f"portal {recipient.public_id} of acme", action, recipient.public_id, 1, "")]


def test_s16_every_address_that_takes_a_post_is_described_here(acme: Consumer, receiver: Receiver) -> None:
    given = things(acme, receiver)
    statuses = {name: inside(acme).post(path.format(**given)).status_code for name, path in PATHS.items()}
    assert {name for name, status in statuses.items() if status != 405} == {*ACTIONS, *EXEMPT}


def test_s16_what_changed_nothing_leaves_none(acme: Consumer, receiver: Receiver) -> None:
    given = things(acme, receiver)
    client = inside(acme)
    lifecycle.pause(Endpoint.objects.order_by("id")[0], reason="for the test")
    AuditEntry.objects.all().delete()

    client.post(PATHS["signatures"], {"secret": "whsec_x"})
    client.post(PATHS["pause"].format(**given))
    client.post(PATHS["rotate-secret"].format(**given), {"overlap_seconds": "-1"})
    client.post(PATHS["endpoint-new"], {**FORM, "url": "nonsense"})
    Client().post(PATHS["enter"].format(token="nonsense"))
    Client().post(PATHS["leave"])

    assert entries() == []


def test_s16_who_opens_another_link_leaves_the_session_before(acme: Consumer) -> None:
    client = inside(acme)
    first = PortalVisit.objects.get()
    client.post(link(acme))

    second = PortalVisit.objects.exclude(id=first.id).get()
    assert [(entry.actor.split()[1], entry.action) for entry in entries()] == [
        (first.public_id, "portal.opened"), (second.public_id, "portal.opened"), (first.public_id, "portal.left"),
    ]  # fmt: skip
