"""One filter: list, count, preview, groups and job agree on the set, whatever is asked for.

The deliveries come from the real walk: accepted, claimed, settled, replayed, an endpoint deleted. What a filter should
match is worked out by a second, plain reading of it in Python.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from deliveries import replay
from deliveries.browse.causes import causes
from deliveries.browse.filter import Filter
from deliveries.browse.matched import matched
from deliveries.browse.walk import next_batch, walk, walk_many
from deliveries.health.breaker import Breaker
from deliveries.models import Attempt, Delivery
from deliveries.states import DeliveryState
from subscriptions import consumers, endpoints, ids
from subscriptions.models import Consumer
from tests.conftest import Api
from tests.console import logged_in
from tests.integration.deliveries.management.test_commands import run, run_json
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)
LONG_AFTER = datetime(2099, 1, 1, tzinfo=UTC)


def answer_all(consumer: Consumer, status_of: Callable[[int], int], *, limit: int = 1000) -> None:
    """Answers what is due, the nth delivery as `status_of` says: 410 means an aborted one."""
    for endpoint in consumer.endpoints.filter(deleted_at__isnull=True):
        outcomes = []
        for number, claimed in enumerate(claim_for(endpoint, limit=limit).deliveries):
            status = status_of(number)
            headers = {"webhook_delivery": "abort-message"} if status == 410 else {}
            outcomes.append(answered(claimed, 500 if status == 410 else status, **headers))
        settle_all(*outcomes, breaker=NEVER)


@pytest.fixture
def world(acme: Consumer) -> list[Delivery]:
    """Two consumers with three endpoints each, one ordered and one deleted in the end; deliveries of every state,
    reason, type and key, some replayed. One key has more events than are looked up one by one."""
    globex = consumers.create(uid="globex")
    statuses = [lambda n: [500, 200, 404, 410, 200][n % 5], lambda n: [200, 404, 410, 200, 500][n % 5]]
    for number, consumer in enumerate((acme, globex)):
        one_try = {"retry_schedule": [0], "max_in_flight": 1000}
        kept = new_endpoint(consumer, **one_try)
        new_endpoint(consumer, **one_try, event_types=["invoice.*"])
        new_endpoint(consumer, **one_try, event_types=["order.*"], ordered=True)
        for key in (None, "busy", "quiet"):
            for type in ("invoice.paid", "order.placed"):
                accept(consumer, 4, type=type, ordering_key=key)
        for _ in range(3):
            answer_all(consumer, statuses[number])
        replay.replay_many(list(Delivery.objects.filter(endpoint=kept, state="dead").values_list("id", flat=True)[:5]))
        answer_all(consumer, lambda n: 500 if n else 200, limit=3)
        accept(consumer, 2)
    accept(acme, 600, ordering_key="busy")
    answer_all(acme, lambda n: 500 if n == 300 else 200)
    accept(globex, 3, ordering_key="quiet")
    claim_for(globex.endpoints.order_by("id")[0], limit=2)
    endpoints.delete(globex.endpoints.order_by("id")[1])
    found = list(Delivery.objects.select_related("event", "endpoint"))
    assert {delivery.state for delivery in found} == set(DeliveryState.values)
    return found


def matches(wanted: Filter, delivery: Delivery, kinds: dict[tuple[UUID, int], str | None]) -> bool:
    event, endpoint = delivery.event, delivery.endpoint
    said = [
        (wanted.state, delivery.state),
        (wanted.consumer_id, endpoint.consumer_id),
        (wanted.endpoint_id, endpoint.id),
        (wanted.event_type, event.type),
        (wanted.dead_reason, delivery.dead_reason),
        (wanted.error_kind, kinds.get((delivery.id, delivery.attempt_count))),
        (wanted.event_id, event.id),
        (wanted.ordering_key, event.ordering_key),
    ]
    made_at = ids.made_at(delivery.id)
    return (
        all(asked is None or asked == found for asked, found in said)
        and (wanted.since is None or made_at >= wanted.since)
        and (wanted.until is None or made_at < wanted.until)
        and (wanted.delivery_ids is None or delivery.id in wanted.delivery_ids)
    )


def filters(world: list[Delivery]) -> st.SearchStrategy[Filter]:
    times = sorted({ids.made_at(delivery.id) for delivery in world})
    some = st.sampled_from(sorted(world, key=lambda each: each.id)[::7])

    def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(st.none(), st.none(), values)

    return st.builds(
        Filter,
        state=st.sampled_from(["dead", "dead", "delivered", "pending", "in_flight", None]),
        consumer_id=maybe(some.map(lambda each: each.endpoint.consumer_id)),
        endpoint_id=maybe(some.map(lambda each: each.endpoint_id)),
        event_type=maybe(st.sampled_from(["invoice.paid", "order.placed", "unknown"])),
        dead_reason=maybe(st.sampled_from(["attempts_exhausted", "aborted_by_receiver", "expired", "no'reason"])),
        error_kind=maybe(st.sampled_from(["http_500", "http_404", "dns"])),
        since=maybe(st.sampled_from(times)),
        until=maybe(st.sampled_from(times)),
        event_id=maybe(some.map(lambda each: each.event_id)),
        ordering_key=maybe(st.sampled_from(["busy", "quiet", "none"])),
        delivery_ids=maybe(st.lists(some.map(lambda each: each.id), max_size=5).map(tuple)),
    )


@pytest.mark.timeout(300)
def test_list_count_preview_groups_and_job_agree_for_every_filter(world: list[Delivery], operator: Api) -> None:
    kinds = {(row.delivery_id, row.number): row.error_kind for row in Attempt.objects.all()}

    @hypothesis_settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
    @given(wanted=filters(world), size=st.integers(1, 60), window=st.integers(1, 300))
    def agree(wanted: Filter, size: int, window: int) -> None:
        expected = [each for each in world if matches(wanted, each, kinds)]
        expected_ids = {each.id for each in expected}
        replayable = [each for each in expected if each.finished_at is not None and each.endpoint.deleted_at is None]
        # Small windows where few can match; else a page of one each would take all day.
        window = window if len(expected) < 50 else 300
        assert listed(wanted, size=max(size, 20), window=window) == expected_ids
        assert listed(wanted, size=max(size, 20), window=window, forward=True) == expected_ids
        assert {each.id for each in walk_many(wanted, limit=5000)} == expected_ids

        whole, some = matched(wanted), matched(wanted, window=window)
        assert dict(whole.by_endpoint) == Counter(each.endpoint_id for each in replayable)
        assert not whole.is_more
        assert some.count == len(replayable) or (some.is_more and some.count < len(replayable))

        assert taken(wanted, size=max(size, 20), window=window) == {each.id for each in replayable}
        assert replayed(wanted) == {each.id for each in replayable}

        if wanted.state == "dead":
            found = causes(wanted, limit=1000)
            groups = {(group.endpoint.id, group.reason): group.count for group in found.groups}
            assert groups == Counter((each.endpoint_id, each.dead_reason) for each in expected)
            assert (found.total, found.is_more) == (len(expected), False)
        if wanted.delivery_ids is None:
            assert listed_by_api(operator, wanted) == {ids.show("dlv", each) for each in expected_ids}

    agree()


def listed(wanted: Filter, *, size: int, window: int, forward: bool = False) -> set[UUID]:
    """Page by page; no delivery is on two of them."""
    seen: list[UUID] = []
    found = walk(wanted, size=size, window=window, forward=forward)
    seen += [row.id for row in found.rows]
    while found.following is not None:
        found = walk(wanted, size=size, window=window, after=found.following, forward=forward)
        seen += [row.id for row in found.rows]
    assert len(seen) == len(set(seen))
    return set(seen)


def taken(wanted: Filter, *, size: int, window: int) -> set[UUID]:
    """What a job takes, batch by batch."""
    seen: list[UUID] = []
    batch = next_batch(wanted, size=size, after=None, finished_by=LONG_AFTER, window=window)
    while True:
        seen += batch.ids
        if batch.is_last:
            assert len(seen) == len(set(seen))
            return set(seen)
        batch = next_batch(wanted, size=size, after=batch.position, finished_by=LONG_AFTER, window=window)


def replayed(wanted: Filter) -> set[UUID]:
    """What a real job puts back, in a transaction that is rolled back."""
    with transaction.atomic():
        before = set(Delivery.objects.filter(state="pending").values_list("id", flat=True))
        job = replay.start(wanted, consumer=None, rate_per_second=None, requested_by="test")
        while job.status == "running":
            replay.advance_all()
            job.refresh_from_db()
        after = set(Delivery.objects.filter(state="pending").values_list("id", flat=True))
        assert (job.replayed, job.matched) == (len(after - before), len(after - before))
        transaction.set_rollback(True)
    return after - before


def listed_by_api(api: Api, wanted: Filter) -> set[str]:
    query: dict[str, Any] = {
        "state": wanted.state, "event_type": wanted.event_type, "dead_reason": wanted.dead_reason,
        "error_kind": wanted.error_kind, "ordering_key": wanted.ordering_key,
        "consumer": wanted.consumer_id and ids.show("con", wanted.consumer_id),
        "endpoint": wanted.endpoint_id and ids.show("ep", wanted.endpoint_id),
        "event": wanted.event_id and ids.show("evt", wanted.event_id),
        "since": wanted.since and wanted.since.isoformat(), "until": wanted.until and wanted.until.isoformat(),
        "limit": "100",
    }  # fmt: skip
    query = {name: value for name, value in query.items() if value is not None}
    answer = api.get("deliveries/", **query)
    if answer.status_code == 404:  # of a deleted endpoint, or an event of another consumer
        return set() if _names_nothing(wanted) else {"404"}
    seen: list[str] = []
    while True:
        shown = answer.json()
        seen += [row["id"] for row in shown["results"]]
        if shown["next"] is None:
            assert len(seen) == len(set(seen))
            return set(seen)
        answer = api.get(shown["next"].partition("/api/v1/")[2])


def _names_nothing(wanted: Filter) -> bool:
    """Whether the API is right to say that there is no such thing."""
    rows = Delivery.objects.all()
    if wanted.endpoint_id is not None and rows.filter(
        endpoint_id=wanted.endpoint_id, endpoint__deleted_at__isnull=False
    ):
        return True
    if wanted.event_id is None or wanted.consumer_id is None:
        return False
    return not rows.filter(event_id=wanted.event_id, endpoint__consumer_id=wanted.consumer_id).exists()


def test_a_dead_letter_behind_six_hundred_events_of_its_key_is_seen_by_everybody(acme: Consumer, operator: Api) -> None:
    """Regression: lists, previews and the shell saw the newest 500 events of a key, and the job saw all."""
    endpoint = new_endpoint(acme, retry_schedule=[0], max_in_flight=1000)
    accept(acme, ordering_key="order-7")
    answer_all(acme, lambda _: 500)
    accept(acme, 600, ordering_key="order-7")
    answer_all(acme, lambda _: 200)
    dead = Delivery.objects.get(state="dead")
    wanted = Filter(ordering_key="order-7")
    console = logged_in("olga", group="Operators")

    assert [row.id for row in walk(wanted, size=50).rows] == [dead.id]
    assert causes(wanted).total == 1
    assert matched(wanted).by_endpoint == [(endpoint.id, 1)]
    listed = operator.get("deliveries/", state="dead", ordering_key="order-7").json()
    assert [row["id"] for row in listed["results"]] == [dead.public_id]
    page = console.get("/admin/dead-letters/", {"q": "order-7"})
    assert [row.id for row in page.context["page"].rows] == [dead.id]
    assert console.get("/admin/dead-letters/replay/", {"q": "order-7"}).context["matched"] == 1
    assert dead.public_id in run("deadletters", "--search", "order-7", "--list")
    assert run_json("replay", "--search", "order-7", "--dry-run")["matched"] == 1
    shown = operator.post("replays/", {"ordering_key": "order-7", "dry_run": True}).json()
    assert shown["matched"] == 1


def test_a_position_stays_good_when_a_key_outgrows_its_look_up(acme: Consumer) -> None:
    """The order of a list is the same by the events of a key and by the walk over deliveries."""
    new_endpoint(acme, retry_schedule=[0], max_in_flight=1000)
    accept(acme, 20, ordering_key="k")
    answer_all(acme, lambda _: 200)
    wanted = Filter(state="delivered", consumer_id=acme.id, ordering_key="k")
    first = walk(wanted, size=10, forward=True)
    accept(acme, 600, ordering_key="k")

    rest = walk(wanted, size=1000, after=first.following, forward=True)

    assert len({row.id for row in first.rows} | {row.id for row in rest.rows}) == 20


def test_the_preview_of_the_last_hour_hands_on_the_hour_that_it_looked_at(acme: Consumer) -> None:
    new_endpoint(acme, retry_schedule=[0])
    accept(acme)
    answer_all(acme, lambda _: 500)
    console = logged_in("olga", group="Operators")

    fields = dict(console.get("/admin/dead-letters/replay/", {"within": "1h"}).context["fields"])

    assert "within" not in fields
    assert timedelta(minutes=59) < datetime.now(UTC) - datetime.fromisoformat(fields["since"]) < timedelta(minutes=62)


@pytest.mark.parametrize(
    "query", [{"until": "1960-01-01"}, {"since": "9999-01-01"}, {"within": "5d"}, {"delivery": "dlv_x"}]
)
def test_what_cannot_be_understood_is_said_on_the_page_and_matches_nothing(
    acme: Consumer, query: dict[str, str]
) -> None:
    """Regression: `until=1960-01-01` was no time at all, and so everything matched."""
    new_endpoint(acme, retry_schedule=[0])
    accept(acme)
    answer_all(acme, lambda _: 500)
    console = logged_in("olga", group="Operators")

    page = console.get("/admin/dead-letters/", query)
    preview = console.get("/admin/dead-letters/replay/", query)

    assert len(page.context["asked"].problems) == 1
    assert (page.context["page"].rows, preview.context["matched"]) == ([], 0)
    assert page.context["asked"].problems[0] in page.content.decode().replace("&#x27;", "'")


def test_a_state_that_does_not_exist_lists_nothing(acme: Consumer) -> None:
    new_endpoint(acme)
    accept(acme)
    page = logged_in("olga", group="Operators").get("/admin/deliveries/", {"state": "daed"})
    assert (page.context["page"].rows, "There is no state daed" in page.content.decode()) == ([], True)
