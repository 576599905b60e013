"""deliveries/console/endpoint_list.py: every failing endpoint with its cause, and all of them, the worst first."""

from collections.abc import Sequence

import pytest
from django.test import Client

from deliveries.browse.backlog_counts import count_backlogs
from deliveries.health.lifecycle import resume
from deliveries.statistics import totals
from subscriptions import consumers
from subscriptions.models import Consumer, Endpoint, Lane
from tests.console import logged_in
from tests.walk import accept, answered, claim_for, new_endpoint, pass_time, settle_all

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga", group="Operators")


def answering_with(consumer: Consumer, name: str, *answers: tuple[int, int]) -> Endpoint:
    """An endpoint of its own event type that gave these answers, each a status code and its milliseconds."""
    endpoint = new_endpoint(consumer, url=f"https://{name}.test/hook", event_types=[name], max_in_flight=50)
    accept(consumer, len(answers), type=name)
    claimed = claim_for(endpoint).deliveries
    settle_all(
        *(answered(each, code)._replace(duration_ms=ms) for each, (code, ms) in zip(claimed, answers, strict=True))
    )
    return endpoint


def listed(client: Client, query: str) -> list[str]:
    page = client.get(f"/admin/endpoints/{query}").context
    return [row.endpoint.url.removeprefix("https://").partition(".")[0] for row in page["rows"]]


def three(consumer: Consumer) -> Sequence[Endpoint]:
    made = [
        answering_with(consumer, "well", (200, 20), (200, 20)),
        answering_with(consumer, "half", (200, 4000), (500, 4000)),
        answering_with(consumer, "broken", (503, 300), (503, 300)),
    ]
    totals.fold()
    return made


def test_a_failing_endpoint_stands_in_the_list_with_its_cause(operator: Client, acme: Consumer) -> None:
    three(acme)
    page = operator.get("/admin/endpoints/?status=failing")
    assert [row.failing.last for row in page.context["rows"]] == [
        "Last answer: 503 Service Unavailable",
        "Last answer: 500 Internal Server Error",
    ]
    assert b"2 failures in a row" in page.content
    assert b"the receiver&#x27;s own log of that moment says why" in page.content


def test_the_overview_says_the_cause_too(operator: Client, acme: Consumer) -> None:
    three(acme)
    assert b"Last answer: 503 Service Unavailable" in operator.get("/admin/").content


def test_the_last_error_is_forgotten_with_the_first_success(acme: Consumer) -> None:
    endpoint = answering_with(acme, "once", (500, 20))
    assert Lane.objects.get(endpoint=endpoint).last_error_kind == "http_500"
    accept(acme, 1, type="once")
    settle_all(*(answered(each, 200) for each in claim_for(endpoint).deliveries))
    assert Lane.objects.get(endpoint=endpoint).last_error_kind is None


def test_the_last_error_is_forgotten_when_somebody_resumes_the_endpoint(acme: Consumer) -> None:
    endpoint = answering_with(acme, "gone", (410, 20))
    assert Lane.objects.get(endpoint=endpoint).last_error_kind == "http_410"
    resume(endpoint, reason="by olga")
    assert Lane.objects.get(endpoint=endpoint).last_error_kind is None


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", ["quiet", "broken", "half", "well"]),
        ("success", ["broken", "half", "well", "quiet"]),
        ("latency", ["half", "broken", "well", "quiet"]),
        ("backlog", ["quiet", "half", "broken", "well"]),
        ("nonsense", ["quiet", "broken", "half", "well"]),
    ],
)
def test_the_worst_come_first(operator: Client, acme: Consumer, sort: str, order: list[str]) -> None:
    three(acme)
    # Beside its failed attempts, which wait for their retries: one of `half`, two of `broken`.
    accept(acme, 3, type="half")
    new_endpoint(acme, url="https://quiet.test/hook", event_types=["quiet"])
    accept(acme, 5, type="quiet")
    assert listed(operator, f"?sort={sort}") == order


def test_a_sorted_list_goes_on_where_its_page_ended(operator: Client, acme: Consumer) -> None:
    three(acme)
    others = [consumers.create(uid=f"other-{number}") for number in range(3)]
    for number in range(120):
        new_endpoint(others[number % 3], url=f"https://r{number}.test/hook")
    first = operator.get("/admin/endpoints/?sort=success").context["page"]
    second = operator.get(f"/admin/endpoints/?{first.older}").context["page"]
    third = operator.get(f"/admin/endpoints/?{second.older}").context["page"]
    seen = [*first.rows, *second.rows, *third.rows]
    assert (len(seen), len(set(seen)), third.older) == (123, 123, None)
    assert [row.url.partition(".")[0] for row in seen[:3]] == ["https://broken", "https://half", "https://well"]
    back = operator.get(f"/admin/endpoints/?{third.newer}").context["page"]
    assert back.rows == second.rows
    assert operator.get(f"/admin/endpoints/?{second.newer}").context["page"].newer is None


@pytest.mark.parametrize("position", ["x", "nan~3fa85f64-5717-4562-b3fc-2c963f66afa6", "1~x"])
def test_a_place_that_makes_no_sense_is_the_beginning(operator: Client, acme: Consumer, position: str) -> None:
    three(acme)
    assert listed(operator, f"?sort=success&before={position}") == ["broken", "half", "well"]


def test_backlogs_are_counted_within_bounds_and_exactly_where_few_are_long(acme: Consumer) -> None:
    ids = {}
    for name, count in {"long": 130, "longer": 140, "short": 3, "tiny": 1}.items():
        ids[new_endpoint(acme, event_types=[name]).id] = count
        accept(acme, count, type=name)
    assert count_backlogs() == ids
    # 30 of each, then all of it for the two that have more: 60 of each, and no further.
    assert sorted(count_backlogs(up_to=120).values()) == [1, 3, 60, 60]


def test_an_unknown_consumer_has_no_endpoints(operator: Client, acme: Consumer) -> None:
    three(acme)
    page = operator.get("/admin/endpoints/?consumer=nobody")
    assert (page.context["rows"], b"There is no consumer nobody" in page.content) == ([], True)


def test_an_endpoint_that_waits_says_why(operator: Client, acme: Consumer) -> None:
    new_endpoint(acme, event_types=["late"])
    accept(acme, 1, type="late")
    pass_time(minutes=2)
    [row] = operator.get("/admin/endpoints/").context["rows"]
    assert (row.failing, row.waits.title, row.owed.waiting) == (None, "Waiting for a worker", 1)
