"""What a consumer does in the portal: the same rules as the API, each action audited, each secret shown once."""

import re
from typing import Any

import pytest
from django.test import Client

from deliveries import replay, sign
from deliveries.actions import holds
from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from subscriptions import endpoints
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry, Consumer, Endpoint, PortalVisit
from tests.console import dead_letters
from tests.portal import inside
from tests.receiver import Receiver, Reply
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{40,}=")
FORM = {
    "url": "https://receiver.test/hook", "event_types": "invoice.*, order.made\ninvoice.*", "description": "Ours",
    "signature_scheme": "standard", "max_in_flight": "7", "rate_limit_per_second": "", "timeout_seconds": "20",
}  # fmt: skip


@pytest.fixture
def visitor(acme: Consumer) -> Client:
    return inside(acme)


def entries() -> list[tuple[str, str, str]]:
    """But for the one about coming in."""
    rows = AuditEntry.objects.exclude(action="portal.opened").order_by("id")
    return list(rows.values_list("actor", "action", "target"))


def in_the_portal() -> str:
    """How the log names the one session there is."""
    return f"portal {PortalVisit.objects.get().public_id} of acme"


def test_an_endpoint_is_made_and_its_secret_shown_once(visitor: Client) -> None:
    page = visitor.post("/portal/endpoints/new/", FORM, follow=True).content.decode()

    made = Endpoint.objects.get()
    assert (made.url, made.event_types, made.description) == (FORM["url"], ["invoice.*", "order.made"], "Ours")
    assert (made.signature_scheme, made.max_in_flight, made.rate_limit_per_second) == ("standard", 7, None)
    assert (made.timeout_seconds, len(SECRET.findall(page))) == (20, 1)
    assert entries() == [(in_the_portal(), "endpoint.created", made.public_id)]
    for path in ("", f"endpoints/{made.public_id}/", f"endpoints/{made.public_id}/edit/", "signatures/"):
        assert "whsec_" not in visitor.get(f"/portal/{path}").content.decode().replace("whsec_…", "")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("url", "https://10.0.0.1/", "We do not deliver"),
        ("url", "not a url", ""),
        ("event_types", "a b!", "is no event type"),
        ("event_types", "", ""),
        ("max_in_flight", "many", "A valid integer is required."),
        ("max_in_flight", "0", "greater than or equal to 1"),
        ("timeout_seconds", "31", "less than or equal to 30"),
        ("signature_scheme", "none", "There is no signature scheme none."),
    ],
)
def test_what_the_api_refuses_the_form_refuses_with_the_same_words(
    visitor: Client, settings: Any, field: str, value: str, words: str
) -> None:
    settings.DELIVERY_ALLOWED_NETWORKS = []
    answer = visitor.post("/portal/endpoints/new/", {**FORM, field: value})
    assert (answer.status_code, list(answer.context["form"].errors)) == (400, [field])
    assert words in answer.context["form"].errors[field]
    assert (Endpoint.objects.count(), entries()) == (0, [])


def test_as_many_endpoints_as_a_consumer_may_have(visitor: Client, acme: Consumer, settings: Any) -> None:
    settings.MAX_ENDPOINTS_PER_CONSUMER = 1
    new_endpoint(acme)
    assert b"Delete one first" in visitor.post("/portal/endpoints/new/", FORM).content
    assert Endpoint.objects.count() == 1


def test_an_endpoint_is_changed_paused_resumed_and_deleted(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, headers={"X-Token": "hush"}, retry_schedule=[0, 5], ordered=True)
    path = f"/portal/endpoints/{endpoint.public_id}"
    visitor.post(f"{path}/edit/", FORM)
    endpoint.refresh_from_db()
    assert (endpoint.max_in_flight, endpoint.signature_scheme) == (7, "standard")
    # What the form does not show stays as it was.
    assert (endpoint.header_names, endpoint.retry_schedule, endpoint.ordered) == (["X-Token"], [0, 5], True)
    seen = []
    for action in ("pause", "pause", "resume", "delete"):
        visitor.post(f"{path}/{action}/")
        endpoint.refresh_from_db()
        seen.append((endpoint.status, endpoint.deleted_at is not None))
    assert seen == [("paused", False), ("paused", False), ("active", False), ("active", True)]
    assert [action for _, action, _ in entries()] == [
        "endpoint.changed", "endpoint.paused", "endpoint.resumed", "endpoint.deleted",
    ]  # fmt: skip


def test_a_rotated_secret_is_shown_once(visitor: Client, acme: Consumer) -> None:
    endpoint, old = endpoints.create(consumer=acme, url="https://receiver.test/hook")
    path = f"/portal/endpoints/{endpoint.public_id}/rotate-secret/"
    assert visitor.post(path, {"overlap_seconds": "604801"}).status_code == 302
    page = visitor.post(path, {"overlap_seconds": "3600"}, follow=True).content.decode()
    endpoint.refresh_from_db()
    assert (len(SECRET.findall(page)), old in page) == (1, False)
    assert endpoint.previous_secret_encrypted is not None
    assert entries() == [(in_the_portal(), "endpoint.secret_rotated", endpoint.public_id)]


def test_a_dead_letter_is_replayed_and_so_are_all_of_one_endpoint(visitor: Client, acme: Consumer) -> None:
    other, _ = dead_letters(acme, 1, event_types=["invoice.paid"])
    endpoint, found = dead_letters(acme, 3)
    page = visitor.get(f"/portal/deliveries/{found[0].public_id}/").content.decode()
    assert "Every attempt failed." in page
    assert "503 Service Unavailable" in page

    visitor.post(f"/portal/deliveries/{found[0].public_id}/replay/")
    assert states(endpoint) == ["dead", "dead", "pending"]
    visitor.post(f"/portal/endpoints/{endpoint.public_id}/replay/")
    job = Replay.objects.get()
    assert (job.consumer, job.matched, job.requested_by) == (acme, 2, in_the_portal())
    assert replay.advance_all() == 2
    assert states(endpoint) == ["pending", "pending", "pending"]
    assert "dead" in states(other)


def test_what_a_receiver_sent_is_escaped_and_headers_are_redacted(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0], headers={"X-Api-Key": "hush-hush"})
    accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 500, X_Trace="<script>alert(1)</script>"))
    page = visitor.get(f"/portal/deliveries/{Delivery.objects.get().public_id}/").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script") == 1  # our own file
    assert "hush-hush" not in page


def test_health_is_said_in_words(visitor: Client, acme: Consumer) -> None:
    well = new_endpoint(acme, event_types=["other.type"])
    dead_letters(acme, 3)
    paused = new_endpoint(acme)
    endpoints.pause(paused)

    def titles() -> list[str]:
        return [health.title for _, health, *_ in visitor.get("/portal/").context["rows"]]

    assert titles() == ["Working", "Failing", "Paused"]
    assert b"3 dead letters" in visitor.get("/portal/").content
    holds.put_on(acme, actor=Actor.of_user("olga"), why="their request")
    assert titles() == ["Held back"] * 3
    assert well.public_id in visitor.get("/portal/").content.decode()


@pytest.mark.django_db  # in one transaction, whose time stands still: the second comes too soon on any machine
def test_a_check_up_runs_and_its_report_is_escaped(visitor: Client, acme: Consumer, receiver: Receiver) -> None:
    receiver.answer = lambda received: Reply(200, b"<b>thanks</b>")
    endpoint = new_endpoint(acme, url=receiver.url)
    page = visitor.post(f"/portal/endpoints/{endpoint.public_id}/check-up/", follow=True).content.decode()
    assert "It does not verify" in page
    assert "&lt;b&gt;thanks&lt;/b&gt;" in page
    assert "<b>thanks" not in page
    again = visitor.post(f"/portal/endpoints/{endpoint.public_id}/check-up/", follow=True).content.decode()
    assert "Try again in a few seconds." in again
    assert entries() == [(in_the_portal(), "endpoint.checked_up", endpoint.public_id)]


def test_the_signature_debugger_names_a_wrong_secret_and_keeps_nothing(visitor: Client, acme: Consumer) -> None:
    endpoint, secret = endpoints.create(consumer=acme, url="https://receiver.test/hook")
    header = sign.signature(scheme="timestamped", secrets=[secret], event_id="evt_1", timestamp=1, body=b'{"a":1}')
    form = {"endpoint": endpoint.public_id, "headers": f"Webhook-Signature: {header}", "body": '{"a":1}'}
    wrong = visitor.post("/portal/signatures/", {**form, "secret": "whsec_b3RoZXI="})
    right = visitor.post("/portal/signatures/", {**form, "secret": secret})
    assert [answer.context["explanation"].title for answer in (wrong, right)] == ["The wrong secret", "It verifies"]
    assert "whsec_b3RoZXI=" not in wrong.content.decode()
    assert secret not in right.content.decode()


def test_deliveries_go_by_page(visitor: Client, acme: Consumer) -> None:
    endpoint, found = dead_letters(acme, 60)
    old = visitor.get(f"/portal/endpoints/{endpoint.public_id}/deliveries/?state=dead")
    assert old.headers["Location"] == f"/portal/deliveries/?state=dead&endpoint={endpoint.public_id}"
    path = "/portal/deliveries/"
    for state in ("", "dead"):
        first = visitor.get(path, {"state": state}).context["page"]
        second = visitor.get(f"{path}?{first.older}").context["page"]
        assert [len(first.rows), len(second.rows)] == [50, 10]
        assert {row.id for row in (*first.rows, *second.rows)} == {delivery.id for delivery in found}
