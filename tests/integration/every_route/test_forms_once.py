"""B: a form sent twice does its work once. From the URL maps of portal and console, so that none can be forgotten."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.console.site import ACTION
from deliveries.health import lifecycle
from deliveries.models import Delivery
from deliveries.pages.idempotent_forms import FIELD
from deliveries.portal import site
from subscriptions import endpoints, event_types, keys, mail_recipients
from subscriptions.models import AuditEntry, Consumer, Endpoint, EventType, PortalVisit, Role
from subscriptions.signing import schemes
from tests.console import dead_letters, logged_in, on_the_map
from tests.forms import form_to, forms_on
from tests.ledger import ledger
from tests.portal import inside, link
from tests.receiver import Receiver, Reply
from tests.threads import at_the_same_moment
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

Given = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A form: its name on the map, the page it is on, where it goes, what somebody types, and what comes before."""

    name: str
    page: str
    action: str
    typed: dict[str, str] = field(default_factory=dict)
    before: Callable[[Given], object] = lambda given: None


def _pause(given: Given) -> None:
    lifecycle.pause(Endpoint.objects.get(id=given["endpoint_uuid"]), reason="for the test")


def _open_breaker(given: Given) -> None:
    given["endpoint"] = dead_letters(given["acme"], 25)[0].public_id


def _rotate(given: Given) -> None:
    endpoints.rotate_secret(Endpoint.objects.get(id=given["endpoint_uuid"]), overlap_seconds=60)


def _come_late(given: Given) -> None:
    """An endpoint that has missed what came before it."""
    given["endpoint"] = new_endpoint(given["acme"]).public_id


def _hold(given: Given) -> None:
    given["operator"].post("/admin/switches/on/", {"scope": "everything", "why": "test"})


NEW = {"url": "https://receiver.test/new"}
ENDPOINT, DELIVERY = "/portal/endpoints/{endpoint}/", "/portal/deliveries/{delivery}/"
PORTAL = [
    Sent("endpoint-new", "/portal/endpoints/new/", "", NEW),
    Sent("endpoint-edit", f"{ENDPOINT}edit/", "", {"description": "Changed"}),
    Sent("pause", ENDPOINT, f"{ENDPOINT}pause/"),
    Sent("resume", ENDPOINT, f"{ENDPOINT}resume/", before=_pause),
    Sent("rotate-secret", ENDPOINT, f"{ENDPOINT}rotate-secret/"),
    Sent("check-up", ENDPOINT, f"{ENDPOINT}check-up/"),
    Sent("replay-dead", ENDPOINT, f"{ENDPOINT}replay/"),
    Sent("endpoint-delete", ENDPOINT, f"{ENDPOINT}delete/"),
    Sent("delivery-replay", DELIVERY, f"{DELIVERY}replay/"),
    Sent("expire-secret", ENDPOINT, f"{ENDPOINT}expire-secret/", before=_rotate),
    Sent("test", f"{ENDPOINT}test/", ""),
    Sent("keys", "/portal/keys/", "", {"scopes": "events:read"}),
    Sent("key-revoke", "/portal/keys/", "/portal/keys/{key}/revoke/"),
    Sent("notifications", "/portal/notifications/", "", {"email": "b@acme.test", "kinds": "failing"}),
    Sent("notification-webhooks", "/portal/notifications/", "/portal/notifications/webhooks/", {"kinds": "failing"}),
    Sent(
        "recipient-change", "/portal/notifications/", "/portal/notifications/{recipient}/change/", {"kinds": "failing"}
    ),
    Sent("recipient-remove", "/portal/notifications/", "/portal/notifications/{recipient}/remove/"),
    Sent("missed", f"{ENDPOINT}missed/", "", before=_come_late),
    Sent("replay-new", "/portal/replays/new/?state=dead", "", {"state": "dead"}),
    Sent("replay-cancel", "/portal/replays/{replay}/", "/portal/replays/{replay}/cancel/"),
]
WHY = {"why": "for the test"}
ON_ENDPOINT, ON_DELIVERY, ON_PENDING = (
    "/admin/endpoints/{endpoint}/", "/admin/deliveries/{delivery}/", "/admin/deliveries/{pending}/",
)  # fmt: skip
ON_CONSUMER, ON_TYPE, ON_USER = "/admin/consumers/{consumer}/", "/admin/event-types/{type}/", "/admin/users/{user}/"
ON_SIGNATURE = "/admin/signatures/own-way/"
CONSOLE = [
    *[Sent("endpoint-act", ON_ENDPOINT, f"{ON_ENDPOINT}{action}/", WHY) for action in ("pause", "rotate", "disable")],
    Sent("endpoint-act", ON_ENDPOINT, f"{ON_ENDPOINT}resume/", WHY, _pause),
    Sent("endpoint-act", ON_ENDPOINT, f"{ON_ENDPOINT}probe/", WHY, _open_breaker),
    Sent("endpoint-test", ON_ENDPOINT, f"{ON_ENDPOINT}test/"),
    Sent("endpoint-check-up", ON_ENDPOINT, f"{ON_ENDPOINT}check-up/"),
    Sent("delivery-act", ON_DELIVERY, f"{ON_DELIVERY}replay/", WHY),
    Sent("delivery-act", ON_PENDING, f"{ON_PENDING}retry-now/", WHY),
    Sent("delivery-act", ON_PENDING, f"{ON_PENDING}give-up/", WHY),
    Sent("event-resend", "/admin/events/{event}/", "/admin/events/{event}/resend/", WHY),
    Sent("portal-link", "/admin/consumers/{consumer}/", "/admin/consumers/{consumer}/portal-link/", WHY),
    Sent("switch", "/admin/switches/", "/admin/switches/on/", WHY),
    Sent("switch", "/admin/switches/", "/admin/switches/off/", WHY, _hold),
    Sent(
        "replay-start",
        "/admin/dead-letters/replay/",
        "/admin/dead-letters/replay/start/",
        {"rate": "5", "all": "yes", **WHY},
    ),
    Sent("replay-cancel", "/admin/replays/{replay}/", "/admin/replays/{replay}/cancel/", WHY),
    Sent("endpoint-limits-change", f"{ON_ENDPOINT}limits/", f"{ON_ENDPOINT}limits/change/", {"max_in_flight": "3"}),
    Sent("consumer-save", f"{ON_CONSUMER}edit/", f"{ON_CONSUMER}edit/save/", {"name": "New"}),
    Sent("key-make", "/admin/new-key/", "/admin/new-key/make/", {"scopes": "events:write"}),
    Sent("key-revoke", "/admin/keys/{key}/", "/admin/keys/{key}/revoke/", WHY),
    Sent("event-type-declare", "/admin/new-event-type/", "/admin/new-event-type/declare/", {"name": "brand.new"}),
    *[
        Sent("event-type-act", ON_TYPE, f"{ON_TYPE}{action}/", typed)
        for action, typed in {
            "deprecate": {},
            "archive": {},
            "delete": {},
            "describe": {"description": "New"},
            "version": {"api_version": "7"},
        }.items()
    ],
    Sent("signature-make", "/admin/new-signature/", "/admin/new-signature/make/", {"name": "new-way"}),
    Sent("signature-act", ON_SIGNATURE, f"{ON_SIGNATURE}change/", {"hash": "sha512"}),
    Sent("signature-act", ON_SIGNATURE, f"{ON_SIGNATURE}delete/"),
    Sent("user-add", "/admin/new-user/", "/admin/new-user/add/", {"name": "newcomer", "role": "Operators"}),
    *[
        Sent("user-act", ON_USER, f"{ON_USER}{action}/", typed)
        for action, typed in {"role": {"role": "Operators"}, "deactivate": {}, "reset-password": {}}.items()
    ],
]
# Not inside a session: a link has its own tests, and ending what has ended is nothing.
WITHOUT_SESSION = {"enter", "leave", "mail"}
# It asks a question and changes nothing. What is pasted is not stored, so its answer cannot be on another page.
ANSWERS_AT_ONCE = {"signatures"}


@pytest.fixture
def given(acme: Consumer, receiver: Receiver, settings: Settings) -> Given:
    settings.PUBLIC_URL = "https://webhooks.test"
    recipient = mail_recipients.add(acme, email="a@acme.test", kinds=["failing", "disabled"])
    assert recipient is not None
    receiver.answer = lambda _: Reply(200, b"ok")
    endpoint, [delivery, *_] = dead_letters(acme, 2, url=receiver.url, event_types=["invoice.paid"])
    waiting = new_endpoint(acme, event_types=["order.made"])
    accept(acme, type="order.made")
    job = replay.start(Filter(endpoint_id=endpoint.id), consumer=acme, rate_per_second=1, requested_by="somebody")
    colleague = User.objects.create_user("colleague")
    event_types.create(name="never.used")
    schemes.create(name="own-way", signed="{body}")
    return {
        "acme": acme, "endpoint": endpoint.public_id, "endpoint_uuid": endpoint.id,
        "delivery": delivery.public_id, "pending": Delivery.objects.get(endpoint=waiting).public_id,
        "event": delivery.event_id, "consumer": acme.public_id, "replay": job.public_id, "receiver": receiver,
        "recipient": recipient.public_id,
        "user": colleague.pk, "type": "never.used", "key": keys.issue(role=Role.CONSUMER, consumer=acme)[0].public_id,
        "operator": logged_in("olga", group="Operators", is_superuser=True),
    }  # fmt: skip


def everything(given: Given) -> Any:
    """All that is stored but who is logged in until when, and what the receiver got."""
    users = list(User.objects.order_by("pk").values_list("pk", "password", "is_active"))
    rows = {table: value for table, value in ledger().items() if table not in ("django_session", "auth_user")}
    return rows, users, len(given["receiver"].received)


def filled_in(client: Client, sent: Sent, given: Given) -> tuple[str, dict[str, str]]:
    sent.before(given)
    page = sent.page.format(**given)
    found = form_to(client.get(page), sent.action.format(**given))
    assert FIELD in found.values, f"a form on {page} has no {FIELD}"
    return sent.action.format(**given) or page, {**found.values, **sent.typed}


def visitor_of(sent: Sent, given: Given) -> Client:
    client: Client = inside(given["acme"]) if sent.page.startswith("/portal/") else given["operator"]
    return client


@pytest.mark.parametrize("sent", [*PORTAL, *CONSOLE], ids=lambda sent: f"{sent.name} {sent.action}")
def test_b_a_form_sent_twice_does_its_work_once_and_answers_with_a_redirect(sent: Sent, given: Given) -> None:
    client = visitor_of(sent, given)
    path, values = filled_in(client, sent, given)
    before = everything(given)

    first = client.post(path, values)
    after = everything(given)
    second = client.post(path, values)

    assert (first.status_code, second.status_code) == (302, 302)
    assert after != before
    assert everything(given) == after
    # To where its work is seen: at once, or on the page that the form was on.
    assert second.headers["Location"].partition("?")[0] == first.headers["Location"].partition("?")[0].partition("#")[0]


@pytest.mark.parametrize(
    "sent",
    [each for each in (*PORTAL, *CONSOLE) if each.name in ("endpoint-new", "rotate-secret", "replay-dead",
     "portal-link", "replay-start", "endpoint-test", "delivery-replay", "key-make", "user-add")],
    ids=lambda sent: sent.name,
)  # fmt: skip
def test_b_four_clicks_at_the_same_moment_do_their_work_once(sent: Sent, given: Given) -> None:
    client = visitor_of(sent, given)
    path, values = filled_in(client, sent, given)
    before = (AuditEntry.objects.count(), Endpoint.objects.count(), PortalVisit.objects.count())
    sent_before = len(given["receiver"].received)

    answers = at_the_same_moment(4, lambda: _copy(client).post(path, values))

    assert [answer.status_code for answer in answers] == [302] * 4
    made = [now - then for now, then in zip(
        (AuditEntry.objects.count(), Endpoint.objects.count(), PortalVisit.objects.count()), before, strict=True
    )]  # fmt: skip
    received = len(given["receiver"].received) - sent_before
    assert max(*made, received) == 1


def _copy(client: Client) -> Client:
    """The same browser: a client of Django's is for one thread."""
    other = Client()
    other.cookies = client.cookies
    return other


def test_b_a_form_sent_again_with_other_values_does_nothing_and_says_so(given: Given) -> None:
    client = inside(given["acme"])
    path, values = filled_in(client, PORTAL[0], given)
    client.post(path, values)
    after = everything(given)
    again = client.post(path, {**values, "url": "https://receiver.test/another"}, follow=True)
    assert b"with other values" in again.content
    assert everything(given) == after


def test_b_a_form_that_was_refused_may_be_sent_again(given: Given) -> None:
    client = inside(given["acme"])
    path, values = filled_in(client, PORTAL[0], given)
    refused = client.post(path, {**values, "url": "not a url"})
    assert (refused.status_code, client.post(path, values).status_code) == (400, 302)
    assert Endpoint.objects.filter(url=NEW["url"]).count() == 1

    path, values = filled_in(client, PORTAL[4], given)
    endpoints.rotate_secret(Endpoint.objects.get(id=given["endpoint_uuid"]), overlap_seconds=60)
    for _ in range(2):
        assert client.post(path, values).headers["Location"] == f"/portal/endpoints/{given['endpoint']}/"
    assert "/secret/" in client.post(path, {**values, "force": "yes"}).headers["Location"]
    assert AuditEntry.objects.filter(action="endpoint.secret_rotated").count() == 1


def test_b_every_form_of_the_portal_is_among_those_sent_twice_here() -> None:
    takes_forms = {str(each.name) for each in site.urlpatterns if "POST" in getattr(each.callback, "methods", ())}
    assert takes_forms == {sent.name for sent in PORTAL} | WITHOUT_SESSION | ANSWERS_AT_ONCE


def test_b_every_action_of_the_console_is_among_those_sent_twice_here() -> None:
    assert on_the_map(ACTION) == {sent.name for sent in CONSOLE}


def test_b_every_form_on_every_page_has_an_id(given: Given) -> None:
    pages = {sent.page.format(**given) for sent in (*PORTAL, *CONSOLE)} | {"/portal/", "/portal/signatures/"}
    visitor = inside(given["acme"])
    for page in sorted(pages):
        answer = (visitor if page.startswith("/portal/") else given["operator"]).get(page)
        forms = [form for form in forms_on(answer) if form.method == "post"]
        assert [form.action for form in forms if FIELD not in form.values] == [], page
        ids = [form.values[FIELD] for form in forms]
        assert len(set(ids)) == len(ids), page


def test_s12_a_link_is_opened_by_a_form_whose_answer_is_a_redirect_or_a_refusal(acme: Consumer) -> None:
    client, path = Client(), link(acme)
    values = form_to(client.get(path), "").values
    assert [client.post(path, values).status_code for _ in range(2)] == [302, 404]
    assert EventType.objects.count() == 0
