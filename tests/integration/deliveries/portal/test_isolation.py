"""S12: for every address of the portal, generated from its URL map: no session, another's things, no CSRF token, CSP.

A new address fails here until `things` knows what its parameters name.
"""

import re
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deliveries import replay
from deliveries.actions import manual_sends
from deliveries.browse.filter import Filter
from deliveries.endpoint_tests import check_up
from deliveries.endpoint_tests.models import SentTest
from deliveries.portal import site
from subscriptions import consumers, event_types, keys, mail_recipients
from subscriptions.audit import Actor
from subscriptions.models import Consumer, EventType, Role
from tests.console import dead_letters
from tests.ledger import ledger
from tests.portal import inside
from tests.receiver import running_receiver
from tests.walk import answering

pytestmark = pytest.mark.django_db(transaction=True)

PATHS = ["/portal/" + re.sub("<str:([a-z]+)>", r"{\1}", str(pattern.pattern)) for pattern in site.urlpatterns]
# The door has tests of its own: whoever holds a link comes in, and everybody may know that a session has ended.
# A colour is nobody's.
OUTSIDE = (
    "/portal/enter/{token}/",
    "/portal/mail/{token}/",
    "/portal/language/{language}/",
    "/portal/left/",
    "/portal/brand/{colour}.css",
)
INSIDE = [path for path in PATHS if path not in OUTSIDE]
# What is published is every consumer's.
EVERYBODYS = ("/portal/events/{type}/", "/portal/keys/shown/{token}/")
OWNED = [path for path in INSIDE if "{" in path and path not in EVERYBODYS]
EVERY_CALL = list(product(INSIDE, ["GET", "POST"]))
# A form that each POST takes; empty where it needs none.
FORM = {"url": "https://receiver.test/other", "event_types": "*", "signature_scheme": "timestamped",
        "max_in_flight": "5", "timeout_seconds": "5"}  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
# The frame asks one question: whose session is this?
QUERIES = {
    "/portal/": 6,
    "/portal/signatures/": 2,
    "/portal/events/": 2,
    "/portal/events/{type}/": 3,
    "/portal/endpoints/check-url/": 1,
    "/portal/endpoints/new/": 3,
    "/portal/endpoints/{endpoint}/": 12,
    "/portal/endpoints/{endpoint}/test/": 5,
    "/portal/endpoints/{endpoint}/verified/": 4,
    "/portal/tests/{test}/": 2,
    "/portal/catch-up/": 1,
    "/portal/notifications/": 3,
    "/portal/keys/": 2,
    "/portal/keys/shown/{token}/": 4,
    "/portal/endpoints/{endpoint}/edit/": 4,
    "/portal/endpoints/{endpoint}/missed/": 6,
    "/portal/deliveries/": 7,
    "/portal/replays/": 2,
    "/portal/replays/new/": 5,
    "/portal/replays/{replay}/": 3,
    "/portal/endpoints/{endpoint}/secret/{token}/": 5,
    "/portal/deliveries/{delivery}/": 6,
}


def things(consumer: Consumer, count: int = 1) -> dict[str, str]:
    endpoint, deliveries = dead_letters(consumer, count, description=f"{consumer}'s hook")
    for _ in range(count // 2):
        dead_letters(consumer, 1)
        keys.issue(role=Role.CONSUMER, consumer=consumer)
    check_up.run(endpoint, transport=answering(401))
    if not EventType.objects.filter(declared_at__isnull=False).exists():
        event_types.create(name="invoice.paid", versions=[{"api_version": "1", "schema": {"type": "object"}}])
    with running_receiver() as receiver:
        type(endpoint).objects.filter(id=endpoint.id).update(url=receiver.url)
        endpoint.refresh_from_db()
        manual_sends.send_test(endpoint, actor=Actor.of_user("olga"), why="")
    key, _ = keys.issue(role=Role.CONSUMER, consumer=consumer)
    wanted = Filter(consumer_id=consumer.id)
    job = replay.start(wanted, consumer=consumer, rate_per_second=1, requested_by="test", why="")
    recipient = mail_recipients.add(consumer, email="a@acme.test", kinds=["failing"])
    assert recipient is not None
    return {
        "recipient": recipient.public_id,
        "endpoint": endpoint.public_id, "delivery": deliveries[0].public_id, "token": "nonsense",
        "type": "invoice.paid", "colour": "3451d1", "replay": job.public_id,
        "test": SentTest.objects.get(endpoint=endpoint).public_id, "key": key.public_id,
    }  # fmt: skip


def call(client: Client, method: str, path: str) -> Any:
    return client.get(path) if method == "GET" else client.post(path, FORM)


def test_s12_without_a_session_nothing_is_shown_and_nothing_changes(acme: Consumer) -> None:
    given = things(acme)
    stranger = Client()
    stranger.cookies["portal_session"] = "guessed"
    before = ledger()

    answers = {(path, method): call(stranger, method, path.format(**given)) for path, method in EVERY_CALL}

    # Ending a session that is none is no secret.
    ended = answers.pop(("/portal/leave/", "POST"))
    assert ended.status_code == 302
    assert {call: answer.status_code for call, answer in answers.items() if answer.status_code not in (403, 405)} == {}
    assert [call for call, answer in answers.items() if given["endpoint"] in answer.content.decode()] == []
    assert ledger() == before


def test_s12_anothers_things_are_not_found_and_nothing_changes(acme: Consumer) -> None:
    theirs = things(consumers.create(uid="globex"))
    client = inside(acme)
    before = ledger()

    answers = {
        (path, method): call(client, method, path.format(**theirs)) for path, method in EVERY_CALL if path in OWNED
    }

    statuses = {call: answer.status_code for call, answer in answers.items()}
    assert {call for call, status in statuses.items() if status not in (404, 405)} == set()
    assert {path for (path, _), status in statuses.items() if status == 404} == set(OWNED)
    assert [call for call, answer in answers.items() if "globex" in answer.content.decode()] == []
    assert ledger() == before


def test_s12_the_owner_finds_what_others_do_not(acme: Consumer) -> None:
    """Guards the test above: its 404 is about whose it is."""
    given = things(acme)
    client = inside(acme)
    statuses = {path: client.get(path.format(**given)).status_code for path in OWNED}
    assert {path for path, status in statuses.items() if status == 200} == {path for path in QUERIES if path in OWNED}
    assert {path for path, status in statuses.items() if status == 302} == {"/portal/endpoints/{endpoint}/deliveries/"}
    assert set(statuses.values()) == {200, 302, 405}


def test_s12_a_form_without_its_token_is_refused_and_nothing_changes(acme: Consumer) -> None:
    given = things(acme)
    client = inside(acme, enforce_csrf_checks=True)
    before = ledger()

    statuses = {path: client.post(path.format(**given), FORM).status_code for path in INSIDE}

    assert statuses == dict.fromkeys(INSIDE, 403)
    assert ledger() == before


def test_s12_every_answer_carries_the_policy_and_leaves_no_trace(acme: Consumer) -> None:
    given = things(acme)
    client = inside(acme)
    for path, method in product(PATHS, ["GET", "POST"]):
        answer = call(client, method, path.format(**given))
        assert answer.headers["Content-Security-Policy"] == POLICY, path
        # The address of a page goes to no other site, and one with a token in it goes nowhere.
        assert answer.headers["Referrer-Policy"] == ("strict-origin" if "{token}" in path else "same-origin"), path
        assert answer.headers["Cache-Control"] == (
            "public, max-age=86400" if "brand" in path and method == "GET" else "no-store"
        ), path
        assert answer.headers["X-Frame-Options"] == "DENY", path
        client = inside(acme)
    assert "unsafe" not in POLICY


@pytest.mark.parametrize("count", [2, 40])
def test_every_page_asks_a_fixed_number_of_questions_and_holds_no_script_or_style(acme: Consumer, count: int) -> None:
    given = things(acme, count)
    client = inside(acme)
    asked = {}
    for path in QUERIES:
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(path.format(**given))
        assert answer.status_code == 200, path
        scripts = re.findall(rb"<script[^>]*>[^<]*", answer.content)
        assert scripts in ([], [b'<script src="/static/portal/portal.js" defer>']), path
        assert not re.search(rb"<style|\sstyle=|\son[a-z]+=|javascript:", answer.content), path
        asked[path] = len(queries)
    assert asked == QUERIES
