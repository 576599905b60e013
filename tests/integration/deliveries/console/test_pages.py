"""Every page of the console: it answers, asks the database a fixed number of questions, and shows no secret."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deliveries import replay
from deliveries.console import errors
from deliveries.console.site import PAGE, POLICY
from deliveries.models import Delivery
from deliveries.replay import Filter
from deliveries.statistics import deltas, rollup, totals
from subscriptions import endpoints, event_types, keys
from subscriptions.models import Consumer, Endpoint, Role
from subscriptions.signing import schemes
from tests.console import dead_letters, logged_in, on_the_map
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

pytestmark = pytest.mark.django_db(transaction=True)

# Questions a page may ask of the database, with 3 dead letters and with 60: no list asks per row. Session, user and
# permissions take four, the transaction and its time limit three, the banner one.
FRAME = 8
PAGES: dict[str, dict[str, int]] = {
    "index": {"": FRAME + 11, "?range=30d": FRAME + 15},
    "find": {
        "find/?q=nowhere": FRAME + 5,
        "find/?q=zzzzzz": FRAME + 11,
        "find/?q=https://h.test/consumers/x/": FRAME + 2,
    },
    "dead-letters": {
        "dead-letters/": FRAME + 6,
        "dead-letters/?endpoint={endpoint}&reason=attempts_exhausted&within=24h": FRAME + 9,
        "dead-letters/?consumer=acme": FRAME + 9,
        "dead-letters/?error=http_503&event_type=invoice.paid": FRAME + 7,
        "dead-letters/?q={event}": FRAME + 8,
    },
    "replay-preview": {
        "dead-letters/replay/?endpoint={endpoint}": FRAME + 4,
        "dead-letters/replay/?error=http_503": FRAME + 2,
    },
    "replays": {"replays/": FRAME + 1},
    "replay": {"replays/{replay}/": FRAME + 2},
    "deliveries": {
        "deliveries/": FRAME + 2,
        "deliveries/?endpoint={endpoint}&state=dead": FRAME + 4,
        "deliveries/?endpoint={endpoint}&state=pending": FRAME + 4,
    },
    "delivery": {"deliveries/{delivery}/": FRAME + 4},
    "events": {"events/": FRAME + 2, "events/?consumer=acme&type=invoice.paid": FRAME + 4},
    "event": {"events/{event_uuid}/": FRAME + 3},
    "endpoints": {
        "endpoints/": FRAME + 4,
        "endpoints/?consumer=acme&status=failing&q=hook&range=1h": FRAME + 4,
        "endpoints/?sort=success": FRAME + 7,
        "endpoints/?sort=latency&range=7d": FRAME + 9,
        "endpoints/?sort=backlog": FRAME + 6,
    },
    "endpoint": {"endpoints/{endpoint}/": FRAME + 15, "endpoints/{endpoint}/?tested=nonsense": FRAME + 16},
    "endpoint-secret": {"endpoints/{endpoint}/secret/nonsense/": FRAME + 4},
    "consumers": {"consumers/": FRAME + 1},
    "consumer": {"consumers/{consumer}/": FRAME + 14},
    "consumer-link": {"consumers/{consumer}/portal-link/nonsense/": FRAME + 4},
    "switches": {"switches/": FRAME + 3},
    "audit": {"audit/": FRAME + 1},
    "limits": {"limits/": FRAME + 1, "limits/?consumer=acme": FRAME + 7},
    "endpoint-limits": {"endpoints/{endpoint}/limits/": FRAME + 1},
    "consumer-edit": {"consumers/{consumer}/edit/": FRAME + 1},
    "keys": {"keys/": FRAME + 1, "keys/?role=consumer&state=all&consumer=acme": FRAME + 2},
    "key": {"keys/{key}/": FRAME + 3},
    "key-new": {"new-key/": FRAME, "new-key/?role=consumer&consumer=acme": FRAME},
    "key-shown": {"keys/shown/nonsense/": FRAME + 3},
    "event-types": {"event-types/": FRAME + 2, "event-types/?state=all&q=invoice": FRAME + 2},
    "event-type": {"event-types/{type}/": FRAME + 4},
    "event-type-new": {"new-event-type/": FRAME},
    "signatures": {"signatures/": FRAME + 1},
    "signature": {"signatures/github/": FRAME, "signatures/own-way/": FRAME + 4},
    "signature-new": {"new-signature/": FRAME},
    "users": {"users/": FRAME + 2, "users/?q=o": FRAME + 2},
    "user": {"users/{user}/": FRAME + 6},
    "user-new": {"new-user/": FRAME},
    "user-password": {"users/{user}/password/nonsense/": FRAME + 5},
}
PATHS = {path: limit for pages in PAGES.values() for path, limit in pages.items()}


def test_every_page_on_the_map_has_its_queries_counted() -> None:
    """A new page cannot be forgotten: it is listed above, or this fails."""
    assert on_the_map(PAGE) == set(PAGES)


@pytest.fixture
def operator(db: None) -> Client:
    """Who may see every page, those of the users too."""
    return logged_in("olga", group="Operators", is_superuser=True)


def names(consumer: Consumer, endpoint: Endpoint, delivery: Delivery) -> dict[str, str]:
    job = replay.start(Filter(endpoint_id=endpoint.id), consumer=consumer, rate_per_second=1, requested_by="olga")
    event_types.create(name="invoice.paid", versions=[{"api_version": "1", "example": {}}])
    schemes.create(name="own-way", signed="{timestamp}.{body}")
    return {
        "endpoint": endpoint.public_id,
        "delivery": delivery.public_id,
        "event": delivery.event.public_id,
        "event_uuid": str(delivery.event_id),
        "consumer": consumer.public_id,
        "replay": job.public_id,
        "key": keys.issue(role=Role.CONSUMER, consumer=consumer)[0].public_id,
        "type": "invoice.paid",
        "user": str(User.objects.get(username="olga").pk),
    }


@pytest.mark.parametrize("count", [3, 60])
def test_every_page_answers_with_a_fixed_number_of_queries(operator: Client, acme: Consumer, count: int) -> None:
    endpoint, found = dead_letters(acme, count)
    rollup.sum_up(now=timezone.now())  # from the first time on, a mark says how far it came
    given = names(acme, endpoint, found[0])
    asked = {}
    for path in PATHS:
        with CaptureQueriesContext(connection) as queries:
            answer = operator.get(f"/admin/{path.format(**given)}")
        assert answer.status_code == 200, path
        asked[path] = len(queries)
    assert {path: number for path, number in asked.items() if number > PATHS[path]} == {}


def test_no_page_counts_history(operator: Client, acme: Consumer) -> None:
    endpoint, found = dead_letters(acme, 3)
    given = names(acme, endpoint, found[0])
    for path in PATHS:
        with CaptureQueriesContext(connection) as queries:
            operator.get(f"/admin/{path.format(**given)}")
        bare = re.compile(r'SELECT COUNT\(\*\) AS "__count" FROM "deliveries_(delivery|event|attempt)"')
        assert [query["sql"] for query in queries if bare.search(query["sql"])] == [], path


def test_what_a_receiver_sent_is_escaped(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 500, X_Trace="<script>alert(1)</script>"))
    page = operator.get(f"/admin/deliveries/{Delivery.objects.get().public_id}/").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page


def test_no_page_shows_a_secret(operator: Client, acme: Consumer) -> None:
    endpoint, secret = endpoints.create(
        consumer=acme, url="https://receiver.test/hook", headers={"X-Api-Key": "hush-hush"}, retry_schedule=[0]
    )
    accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 500))
    given = names(acme, endpoint, Delivery.objects.get())
    for path in PATHS:
        page = operator.get(f"/admin/{path.format(**given)}").content.decode()
        assert secret not in page, path
        assert secret.removeprefix("whsec_") not in page, path
        assert "hush-hush" not in page, path


def test_a_delivery_tells_why_it_is_dead_and_what_to_do(operator: Client, acme: Consumer) -> None:
    _, [delivery] = dead_letters(acme, 1)
    page = operator.get(f"/admin/deliveries/{delivery.public_id}/").content.decode()
    for text in (
        "Every attempt failed",
        "503 Service Unavailable",
        "What to do.",
        "Repeat it with curl",
        "&quot;number&quot;: 0",
    ):
        assert text in page


def test_dead_letters_are_grouped_by_endpoint_and_reason(operator: Client, acme: Consumer) -> None:
    broken, _ = dead_letters(acme, 5, event_types=["invoice.paid"])
    context = operator.get("/admin/dead-letters/").context
    [group] = context["causes"].groups
    assert (group.endpoint, group.reason, group.count, group.error_kind) == (
        broken,
        "attempts_exhausted",
        5,
        "http_503",
    )
    assert context["causes"].total == 5


def test_pages_go_by_keyset_both_ways_and_show_each_row_once(operator: Client, acme: Consumer) -> None:
    _, found = dead_letters(acme, 120)
    seen, query = [], ""
    pages = []
    while query is not None:
        page = operator.get(f"/admin/dead-letters/?{query}").context["page"]
        pages.append([row.id for row in page.rows])
        seen += pages[-1]
        query = page.older
    assert seen == [delivery.id for delivery in found]
    assert [len(page) for page in pages] == [50, 50, 20]
    back = operator.get(f"/admin/dead-letters/?after={pages[2][0]}").context["page"]
    assert [row.id for row in back.rows] == pages[1]


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        (lambda d: f"q={d.event.public_id}", 1),
        (lambda d: "q=nothing-of-that-name", 0),
        (lambda d: "reason=expired", 0),
        (lambda d: "error=http_500", 0),
        (lambda d: "event_type=invoice.paid&within=1h&consumer=acme", 3),
        (lambda d: "since=2020-01-01T00:00&until=2020-01-02T00:00", 0),
    ],
)
def test_filters_narrow(operator: Client, acme: Consumer, query: Callable[[Any], str], matches: int) -> None:
    _, [delivery, *_] = dead_letters(acme, 3)
    context = operator.get(f"/admin/dead-letters/?{query(delivery)}").context
    assert (len(context["page"].rows), context["causes"].total) == (matches, matches)


@pytest.mark.parametrize("query", ["consumer=nobody", "endpoint=ep_x", "since=yesterday"])
def test_a_filter_that_makes_no_sense_says_so_and_shows_nothing(operator: Client, acme: Consumer, query: str) -> None:
    dead_letters(acme, 1)
    context = operator.get(f"/admin/dead-letters/?{query}").context
    assert context["page"].rows == []
    assert context["asked"].problems


@pytest.mark.parametrize("kind", ["dlv", "ep", "con", "rpl"])
def test_an_unknown_id_is_a_page_that_says_so(operator: Client, kind: str) -> None:
    page = {"dlv": "deliveries", "ep": "endpoints", "con": "consumers", "rpl": "replays"}[kind]
    answer = operator.get(f"/admin/{page}/{kind}_01m7h3xmx1es6vbckezbxg7h8a/")
    assert answer.status_code == 404
    assert b"There is no such" in answer.content


def test_the_box_finds_by_any_id(operator: Client, acme: Consumer) -> None:
    endpoint, [delivery] = dead_letters(acme, 1)
    for text, page in [
        (delivery.public_id, f"/admin/deliveries/{delivery.public_id}/"),
        (delivery.event.public_id, f"/admin/events/{delivery.event_id}/"),
        (endpoint.public_id, f"/admin/endpoints/{endpoint.public_id}/"),
        ("acme", f"/admin/consumers/{acme.public_id}/"),
        ("receiver.test", f"/admin/endpoints/{endpoint.public_id}/"),
        (endpoint.url, f"/admin/endpoints/{endpoint.public_id}/"),
        # As lists show it, its end alone, and whole without its prefix.
        (f"dlv_…{delivery.public_id[-6:]}", f"/admin/deliveries/{delivery.public_id}/"),
        (delivery.event.public_id[-8:], f"/admin/events/{delivery.event_id}/"),
        (endpoint.public_id[-12:].upper(), f"/admin/endpoints/{endpoint.public_id}/"),
        (delivery.public_id.removeprefix("dlv_"), f"/admin/deliveries/{delivery.public_id}/"),
        (str(delivery.id), f"/admin/deliveries/{delivery.public_id}/"),
        (delivery.attempts.get().public_id, f"/admin/deliveries/{delivery.public_id}/"),
    ]:
        assert operator.get("/admin/find/", {"q": text}).headers["Location"] == page, text


def test_the_box_finds_what_a_pasted_address_is_about(operator: Client, acme: Consumer) -> None:
    endpoint, [delivery] = dead_letters(acme, 1)
    event_types.create(name="invoice.paid", versions=[{"api_version": "1", "example": {}}])
    key = keys.issue(role=Role.CONSUMER, consumer=acme)[0].public_id
    here = "https://hooks.example.com"
    for text, page in [
        (f"{here}/api/v1/deliveries/{delivery.public_id}/", f"deliveries/{delivery.public_id}/"),
        (f"{here}/api/v1/endpoints/{endpoint.public_id}/deliveries?state=dead", f"endpoints/{endpoint.public_id}/"),
        (f"{here}/api/v1/consumers/acme/feed/?wait=5", f"consumers/{acme.public_id}/"),
        (f"{here}/api/v1/consumers/{acme.public_id}/keys/{key}/", f"keys/{key}/"),
        (f"{here}/api/v1/event-types/invoice.paid/", "event-types/invoice.paid/"),
        (f"{here}/api/v1/events/{delivery.event.public_id}", f"events/{delivery.event_id}/"),
        (f"{here}/admin/events/{delivery.event_id}/", f"events/{delivery.event_id}/"),
        (f"{here}/admin/dead-letters/?endpoint={endpoint.public_id}", f"endpoints/{endpoint.public_id}/"),
        (f"{here}/portal/deliveries/{delivery.public_id}/#attempts", f"deliveries/{delivery.public_id}/"),
        (f"{here}/portal/endpoints/{endpoint.public_id}/edit/", f"endpoints/{endpoint.public_id}/"),
        # As the browser shows an endpoint's own URL, and as it is stored.
        (endpoint.url.upper() + "/", f"endpoints/{endpoint.public_id}/"),
        (endpoint.url.replace("https", "http") + "#top", f"endpoints/{endpoint.public_id}/"),
        (key, f"keys/{key}/"),
        (key[-8:], f"keys/{key}/"),
    ]:
        assert operator.get("/admin/find/", {"q": text}).headers["Location"] == f"/admin/{page}", text


@pytest.mark.parametrize(
    "text",
    ["https://nowhere.test/", "https://x/%ff/?q=%ff", "http://[", "https://x/consumers/", "https://x/consumers/a%00b/"],
)
def test_an_address_of_nothing_finds_nothing(operator: Client, acme: Consumer, text: str) -> None:
    answer = operator.get("/admin/find/", {"q": text})
    assert (answer.status_code, answer.context["hits"]) == (200, [])


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Last answer: 500", "error=http_500"),
        ("500 Internal Server Error", "error=http_500"),
        ("service unavailable", "error=http_503"),
        ("read timeout", "error=read_timeout"),
        ("Waited too long", "reason=expired"),
        ("attempts_exhausted", "reason=attempts_exhausted"),
    ],
)
def test_the_box_finds_dead_letters_by_how_they_ended(operator: Client, text: str, query: str) -> None:
    assert operator.get("/admin/find/", {"q": text}).headers["Location"] == f"/admin/dead-letters/?{query}"


def test_the_box_says_when_it_finds_nothing(operator: Client, acme: Consumer) -> None:
    for text in ("dlv_…zzzzzz", "zzzzzz", "7zzzzzzzzzzzzzzzzzzzzzzzzz", "42", "last answer:", "…"):
        answer = operator.get("/admin/find/", {"q": text})
        assert (answer.status_code, answer.context["hits"]) == (200, []), text


def test_an_error_under_admin_is_a_page_and_elsewhere_a_problem_document(operator: Client) -> None:
    missing = operator.get("/admin/no/such/page/")
    assert (missing.status_code, b"There is nothing at this address" in missing.content) == (404, True)
    assert b"Dead letters" in missing.content  # in the frame
    refused = logged_in("nobody").get("/admin/dead-letters/")
    assert (refused.status_code, b"Your role does not allow this" in refused.content) == (403, True)
    stranger = Client().get("/admin/no/such/page/")
    assert stranger.status_code in (302, 404)
    assert operator.get("/nowhere/").headers["Content-Type"] == "application/problem+json"


def test_what_breaks_is_told_without_the_frame_that_may_be_broken(rf: Any) -> None:
    answer = errors.server_error(rf.get("/admin/endpoints/"))
    assert (answer.status_code, b"Something broke on our side" in answer.content) == (500, True)
    assert errors.server_error(rf.get("/api/v1/events/")).headers["Content-Type"] == "application/problem+json"


def test_every_page_has_the_content_policy(operator: Client, acme: Consumer) -> None:
    endpoint, found = dead_letters(acme, 1)
    given = names(acme, endpoint, found[0])
    for path in [*PATHS, "login/"]:
        answer = operator.get(f"/admin/{path.format(**given)}")
        assert answer.headers["Content-Security-Policy"] == POLICY, path
        inline = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|\son[a-z]+=\"", answer.content.decode())
        assert [each for each in inline if "json" not in each] == [], path


def test_the_overview_tells_what_came_of_idempotency_keys_as_metrics_do(operator: Client) -> None:
    assert operator.get("/admin/").context["idempotency"] == []
    counted = {"new database": 6, "replayed database": 3, "reused database": 1}
    deltas.write({(deltas.IDEMPOTENCY, label): count for label, count in counted.items()})
    totals.fold()
    shown = operator.get("/admin/").context["idempotency"]
    assert [(row["name"], row["count"], row["share"]) for row in shown] == [
        ("new", 6, 0.6), ("replayed", 3, 0.3), ("reused", 1, 0.1), ("in_progress", 0, 0.0)
    ]  # fmt: skip
    assert {label: totals.read()[deltas.IDEMPOTENCY, label] for label in counted} == counted
