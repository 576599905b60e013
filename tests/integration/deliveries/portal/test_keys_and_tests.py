"""What a consumer makes in the portal by itself: API keys, test events, the end of an old secret."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from deliveries.endpoint_tests import sent_tests, test_event
from deliveries.endpoint_tests.models import SentTest
from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from subscriptions import consumers, endpoints, event_types, keys
from subscriptions.models import ApiKey, AuditEntry, Consumer, Endpoint, Role
from tests.conftest import Api
from tests.portal import inside
from tests.receiver import Receiver, Reply
from tests.walk import new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def visitor(acme: Consumer) -> Client:
    return inside(acme)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def shown_key(answer: Any) -> str:
    key: str = answer.context["shown"]["key"]
    return key


def test_a_key_is_made_with_its_scopes_and_end_and_shown_once(visitor: Client, acme: Consumer) -> None:
    form = {"name": "catch-up", "scopes": ["events:read", "deliveries:read"], "ends": "7"}
    answer = visitor.post("/portal/keys/", form, follow=True)

    made = ApiKey.objects.get()
    assert (made.consumer, made.role, made.name) == (acme, Role.CONSUMER, "catch-up")
    assert made.scopes == ["deliveries:read", "events:read"]
    assert made.expires_at is not None
    assert timedelta(days=6) < made.expires_at - timezone.now() < timedelta(days=8)
    api = Api(shown_key(answer))
    assert api.get("consumers/acme/feed/").status_code == 200
    assert api.get("consumers/acme/endpoints/").status_code == 403
    assert b"shown once" in visitor.get(answer.request["PATH_INFO"]).content


def test_a_key_is_revoked_at_once(visitor: Client) -> None:
    key = shown_key(visitor.post("/portal/keys/", {"scopes": "events:read", "ends": ""}, follow=True))
    made = ApiKey.objects.get()
    visitor.post(f"/portal/keys/{made.public_id}/revoke/")
    assert Api(key).get("consumers/acme/feed/").status_code == 401
    assert made.public_id not in visitor.get("/portal/keys/").content.decode()


@pytest.mark.parametrize(
    "form",
    [
        {"scopes": [], "ends": "7"},
        {"scopes": ["events:write"], "ends": "7"},
        {"scopes": ["keys:write"], "ends": "7"},
        {"scopes": ["events:read"], "ends": "9999"},
    ],
)
def test_a_key_that_may_not_be_is_refused(visitor: Client, form: dict[str, Any]) -> None:
    answer = visitor.post("/portal/keys/", form)
    assert (answer.status_code, bool(answer.context["problem"])) == (400, True)
    assert ApiKey.objects.count() == 0


def test_s14_a_key_made_through_a_link_ends_with_the_key_that_asked_for_the_link(acme: Consumer) -> None:
    parent, secret = keys.issue(role=Role.PRODUCER)
    path = Api(secret).post("consumers/acme/portal-link/").json()["url"].removeprefix("http://testserver")
    client = Client()
    client.post(path)
    key = shown_key(client.post("/portal/keys/", {"scopes": "events:read", "ends": ""}, follow=True))
    assert Api(key).get("consumers/acme/feed/").status_code == 200

    keys.revoke(key_id=parent.id, consumer=None)

    assert Api(key).get("consumers/acme/feed/").status_code == 401


def test_s14_a_link_of_a_key_that_makes_no_keys_lets_nobody_make_one(acme: Consumer) -> None:
    _, secret = keys.issue(role=Role.PRODUCER, scopes=["portal_links:write"])
    path = Api(secret).post("consumers/acme/portal-link/").json()["url"].removeprefix("http://testserver")
    client = Client()
    client.post(path)
    answer = client.post("/portal/keys/", {"scopes": "events:read", "ends": ""})
    assert answer.context["problem"].startswith("The link that you came in with lets you make no keys.")
    assert ApiKey.objects.filter(role=Role.CONSUMER).count() == 0


def test_nobody_elses_key_is_revoked(visitor: Client) -> None:
    theirs, _ = keys.issue(role=Role.CONSUMER, consumer=consumers.create(uid="globex"))
    assert visitor.post(f"/portal/keys/{theirs.public_id}/revoke/").status_code == 404
    theirs.refresh_from_db()
    assert theirs.revoked_at is None


# ── test events ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_test_event_of_a_type_is_made_from_its_example_sent_and_kept(
    visitor: Client, acme: Consumer, receiver: Receiver
) -> None:
    receiver.answer = lambda _: Reply(202, b"<b>taken</b>")
    version = {"api_version": "1", "example": {"amount": 5}}
    event_types.create(name="invoice.paid", versions=[version])
    endpoint = new_endpoint(acme, url=receiver.url)
    path = f"/portal/endpoints/{endpoint.public_id}/test/"
    assert visitor.get(path, {"type": "invoice.paid"}).context["data"] == '{\n  "amount": 5\n}'

    answer = visitor.post(path, {"type": "invoice.paid", "data": '{"amount": 7}'}, follow=True)

    [request] = receiver.received
    assert (request.headers["webhook-test"], b'"type":"invoice.paid"' in request.body) == ("true", True)
    assert b'"data":{"amount":7}' in request.body
    page = answer.content.decode()
    assert ("202 Accepted" in page, "&lt;b&gt;taken" in page, "<b>taken" in page) == (True, True, False)
    kept = SentTest.objects.get()
    assert (kept.type, kept.status_code, kept.sent_by.startswith("portal vis_")) == ("invoice.paid", 202, True)
    assert visitor.get(f"/portal/tests/{kept.public_id}/").status_code == 200
    # Nothing is owed, and nobody's health has changed.
    assert (Delivery.objects.count(), AuditEntry.objects.filter(action="endpoint.tested").count()) == (0, 1)


@pytest.mark.parametrize(
    ("type", "data", "words"),
    [
        ("webhook.test", "{", "JSON"),
        ("webhook.test", "[]", "is a JSON object"),
        ("secret.launch", "{}", "There is no event type secret.launch."),
    ],
)
def test_a_test_event_that_makes_no_sense_is_not_sent(
    visitor: Client, acme: Consumer, receiver: Receiver, type: str, data: str, words: str
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    answer = visitor.post(f"/portal/endpoints/{endpoint.public_id}/test/", {"type": type, "data": data})
    assert (answer.status_code, words in answer.context["problem"]) == (400, True)
    assert (receiver.received, SentTest.objects.count()) == ([], 0)


def test_the_newest_tests_of_an_endpoint_are_kept(acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    sent = [sent_tests.keep(endpoint, test_event.run(endpoint), sent_by="test", most=2) for _ in range(4)]
    assert list(SentTest.objects.order_by("id").values_list("id", flat=True)) == [each.id for each in sent[-2:]]


def test_a_test_that_a_program_sends_is_in_the_log_too(acme_api: Api, acme: Consumer, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    sent = acme_api.post(f"endpoints/{endpoint.public_id}/test/").json()
    assert SentTest.objects.get().event_id == sent["event"]


# ── secrets and charts ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_old_secret_is_ended_before_its_time(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    path = f"/portal/endpoints/{endpoint.public_id}/"
    refused = visitor.post(f"{path}expire-secret/", follow=True)
    assert b"No older secret signs any more." in refused.content
    endpoints.rotate_secret(endpoint, overlap_seconds=3600)
    assert visitor.get(path).context["until"] is not None

    visitor.post(f"{path}expire-secret/")

    assert visitor.get(path).context["until"] is None
    found = Endpoint.objects.get()
    assert (found.previous_secret_encrypted, found.previous_secret_expires_at) == (None, None)


@pytest.mark.parametrize(("asked", "shown"), [("", "24h"), ("7d", "7d"), ("30d", "30d"), ("nonsense", "24h")])
def test_charts_are_for_a_day_a_week_or_a_month(visitor: Client, acme: Consumer, asked: str, shown: str) -> None:
    endpoint = new_endpoint(acme)
    answer = visitor.get(f"/portal/endpoints/{endpoint.public_id}/", {"range": asked})
    assert answer.context["span"].name == shown


def test_the_loop_of_the_catch_up_page_is_a_program(visitor: Client) -> None:
    """Regression: its last line stood two spaces too far to the right."""
    page = visitor.get("/portal/catch-up/").content.decode()
    [loop] = [html.unescape(each) for each in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL) if "PLACE" in each]
    compile(loop, "loop", "exec")


def test_data_that_the_api_would_refuse_is_refused_in_a_test_event(visitor: Client, acme: Consumer) -> None:
    """Regression: data with 300 levels were answered with 500, and a key twice went out once."""
    endpoint = new_endpoint(acme)
    for data in ('{"a": ' + "[" * 300 + "]" * 300 + "}", '{"a": 1, "a": 2}', '{"a": "\\u0000"}'):
        answer = visitor.post(f"/portal/endpoints/{endpoint.public_id}/test/", {"type": "webhook.test", "data": data})
        assert (answer.status_code, bool(answer.context["problem"])) == (400, True)
    assert AuditEntry.objects.filter(action="endpoint.tested").count() == 0


def test_everything_that_ever_arrived_is_not_replayed_by_a_state_alone(visitor: Client, acme: Consumer) -> None:
    visitor.post("/portal/replays/new/", {"state": "delivered"})
    assert Replay.objects.count() == 0
