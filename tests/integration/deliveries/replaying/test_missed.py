"""deliveries/replaying/missed.py: what was accepted before an endpoint wanted it is sent to it, once."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone

from deliveries import replay
from deliveries.actions import endpoints as endpoint_actions
from deliveries.browse.events import EventFilter, count_events
from deliveries.models import Delivery, Event
from deliveries.replaying.missed import Missed
from deliveries.replaying.models import PutBack, Replay
from subscriptions import consumers, endpoints, ids
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry, Consumer, Endpoint
from tests.conftest import Api, PumpRunner
from tests.ledger import ledger
from tests.threads import at_the_same_moment
from tests.walk import accept, answered, answering, claim_for, new_endpoint, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = "2020-01-01T00:00:00Z"


def missed_by(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    return {"endpoint": endpoint.public_id, "missed_since": LONG_AGO, **more}


def start(endpoint: Endpoint, *, rate_per_second: int | None = None) -> Replay:
    since = datetime(2020, 1, 1, tzinfo=UTC)
    wanted = Missed(endpoint.consumer_id, endpoint.id, since=since, until=timezone.now() + timedelta(seconds=1))
    return replay.start(
        wanted, consumer=endpoint.consumer, rate_per_second=rate_per_second, requested_by="test", why=""
    )


def test_a_new_endpoint_gets_what_was_accepted_before_it_existed(
    acme_api: Api, acme: Consumer, pump: PumpRunner
) -> None:
    old = accept(acme, 3)
    endpoint = new_endpoint(acme)
    [new] = accept(acme)
    assert Delivery.objects.filter(endpoint=endpoint).count() == 1

    answer = acme_api.post("replays/", missed_by(endpoint, why="we joined late"))

    assert (answer.status_code, answer.json()["matched"]) == (202, 3)
    assert replay.advance_all() == 3
    assert pump.run(transport=answering(200)) == 4
    sent = set(Delivery.objects.filter(endpoint=endpoint, state="delivered").values_list("event_id", flat=True))
    assert sent == {event.id for event in (*old, new)}
    assert replay.advance_all() == 0
    shown = acme_api.get(f"replays/{answer.json()['id']}/").json()
    assert (shown["status"], shown["replayed"], shown["delivered"], shown["waiting"]) == ("done", 3, 3, 0)
    [entry] = AuditEntry.objects.filter(action="replay.started")
    assert (entry.count, entry.why) == (3, "we joined late")


def test_asked_again_it_sends_nothing_a_second_time(acme_api: Api, acme: Consumer) -> None:
    accept(acme, 3)
    endpoint = new_endpoint(acme)
    acme_api.post("replays/", missed_by(endpoint))
    replay.advance_all()
    replay.advance_all()

    again = acme_api.post("replays/", missed_by(endpoint))

    assert (again.status_code, again.json()["matched"]) == (202, 0)
    replay.advance_all()
    assert Delivery.objects.filter(endpoint=endpoint).count() == 3


def test_two_jobs_at_the_same_moment_make_one_delivery_of_each_event(acme: Consumer) -> None:
    accept(acme, 50)
    endpoint = new_endpoint(acme)
    start(endpoint)
    start(endpoint)

    at_the_same_moment(4, replay.advance_all)
    replay.advance_all()

    assert Delivery.objects.filter(endpoint=endpoint).count() == 50
    assert sum(Replay.objects.values_list("replayed", flat=True)) == 50


def test_it_sends_what_the_endpoint_wants_now_and_nothing_else(acme_api: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, event_types=["other.thing"])
    for type in ("invoice.paid", "invoice.line.added", "invoices.paid", "order.made", "order.made.twice"):
        accept(acme, type=type)
    changes = {"event_types": ["invoice.*", "order.made"]}
    endpoint_actions.update(endpoint, changes, actor=Actor.of_user("olga"), why="")

    preview = acme_api.post("replays/", missed_by(endpoint, dry_run=True))
    acme_api.post("replays/", missed_by(endpoint))
    replay.advance_all()

    by_endpoint = [{"endpoint": endpoint.public_id, "matched": 3}]
    assert preview.json() == {"matched": 3, "by_endpoint": by_endpoint}
    types = Delivery.objects.filter(endpoint=endpoint).values_list("event__type", flat=True)
    assert sorted(types) == ["invoice.line.added", "invoice.paid", "order.made"]


def test_a_preview_changes_nothing(acme_api: Api, acme: Consumer) -> None:
    accept(acme, 2)
    endpoint = new_endpoint(acme)
    before = ledger()
    assert acme_api.post("replays/", missed_by(endpoint, dry_run=True)).json()["matched"] == 2
    assert ledger() == before


def test_a_span_of_time_leaves_out_what_is_before_and_after_it(acme_api: Api, acme: Consumer) -> None:
    events = [accept(acme)[0] for _ in range(3)]
    endpoint = new_endpoint(acme)
    middle = ids.made_at(events[1].id)
    until = middle + timedelta(milliseconds=1)
    span = {"missed_since": middle.isoformat(), "missed_until": until.isoformat()}

    acme_api.post("replays/", missed_by(endpoint) | span)
    replay.advance_all()

    found = set(Delivery.objects.filter(endpoint=endpoint).values_list("event_id", flat=True))
    # Events of one millisecond are of one time.
    assert found == {event.id for event in events if middle <= ids.made_at(event.id) < until}
    assert events[1].id in found


def test_events_of_others_and_without_payload_stay_away(acme: Consumer) -> None:
    accept(consumers.create(uid="globex"), 2)
    [gone, _] = accept(acme, 2)
    Event.objects.filter(id=gone.id).update(body=None)
    endpoint = new_endpoint(acme)

    assert start(endpoint).matched == 1
    assert replay.advance_all() == 1


def test_events_whose_deliveries_may_be_forgotten_are_left_alone(acme: Consumer, settings: Any) -> None:
    accept(acme)
    endpoint = new_endpoint(acme)
    settings.RETENTION_DELIVERED_DAYS = 0
    assert start(endpoint).matched == 0


def test_a_rate_is_honoured_and_cancelling_takes_away_what_was_not_sent(acme_api: Api, acme: Consumer) -> None:
    accept(acme, 30)
    endpoint = new_endpoint(acme)
    job = acme_api.post("replays/", missed_by(endpoint, rate_per_second=2)).json()
    replay.advance_all()
    due = list(Delivery.objects.filter(endpoint=endpoint).order_by("due_at").values_list("due_at", flat=True))
    assert 10 <= len(due) <= 12
    assert all(later - earlier == timedelta(seconds=0.5) for earlier, later in pairwise(due))
    [first] = claim_for(endpoint).deliveries
    settle_all(answered(first, 200))

    answer = acme_api.post(f"replays/{job['id']}/cancel/")

    assert (answer.json()["status"], answer.json()["replayed"]) == ("cancelled", 1)
    assert states(endpoint) == ["delivered"]
    assert PutBack.objects.count() == 1
    # What was taken away was never sent, so it can be asked for again.
    assert acme_api.post("replays/", missed_by(endpoint, dry_run=True)).json()["matched"] == 29


def test_a_job_goes_on_where_it_was(acme: Consumer) -> None:
    accept(acme, 1500)
    endpoint = new_endpoint(acme)
    job = start(endpoint)

    assert replay._advance_once(job.id).count == 1000
    job.refresh_from_db()
    assert (job.replayed, job.status) == (1000, "running")
    assert replay.advance_all() == 500
    assert Delivery.objects.filter(endpoint=endpoint).count() == 1500


def test_w15_an_ordered_endpoint_gets_missed_events_of_a_key_one_at_a_time_in_sequence(acme: Consumer) -> None:
    accept(acme, 3, ordering_key="a")
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 1, ordering_key="a")
    start(endpoint)
    replay.advance_all()

    seen = []
    for _ in range(4):
        [claimed] = claim_for(endpoint).deliveries
        seen.append(Event.objects.get(id=claimed.event_id).sequence)
        settle_all(answered(claimed, 200))

    # The one that came after the endpoint was under way already; the missed ones follow in their order.
    assert seen == [4, 1, 2, 3]


def test_w15_a_cancelled_job_leaves_nothing_waiting_behind_what_it_takes_away(acme: Consumer) -> None:
    accept(acme, 2, ordering_key="a")
    endpoint = new_endpoint(acme, ordered=True)
    job = start(endpoint, rate_per_second=1)
    replay.advance_all()
    accept(acme, 1, ordering_key="a")

    replay.cancel(job)

    [claimed] = claim_for(endpoint).deliveries
    assert Event.objects.get(id=claimed.event_id).sequence == 3


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"missed_since": LONG_AGO}, "/endpoint"),
        ({"endpoint": "{endpoint}", "missed_until": LONG_AGO}, "/missed_since"),
        ({"endpoint": "{endpoint}", "missed_since": LONG_AGO, "event_type": "a.b"}, "/event_type"),
        ({"endpoint": "{endpoint}", "missed_since": LONG_AGO, "state": "dead"}, "/state"),
        ({"endpoint": "{endpoint}", "missed_since": "2999-01-01T00:00:00Z"}, "/missed_since"),
        ({"endpoint": "{endpoint}", "missed_since": "2020-01-01"}, "/missed_since"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_its_place(
    acme_api: Api, acme: Consumer, body: dict[str, str], pointer: str
) -> None:
    endpoint = new_endpoint(acme)
    before = ledger()
    given = {name: value.replace("{endpoint}", endpoint.public_id) for name, value in body.items()}
    answer = acme_api.post("replays/", given)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, pointer)
    assert ledger() == before


def test_somebody_elses_endpoint_is_not_found(acme_api: Api) -> None:
    theirs = new_endpoint(consumers.create(uid="globex"))
    before = ledger()
    assert acme_api.post("replays/", missed_by(theirs)).status_code == 404
    assert ledger() == before


def test_a_deleted_endpoint_gets_nothing_more(acme: Consumer) -> None:
    accept(acme, 2)
    endpoint = new_endpoint(acme)
    job = start(endpoint)
    endpoints.delete(endpoint)
    replay.advance_all()
    job.refresh_from_db()
    assert (job.status, job.replayed, Delivery.objects.count()) == ("done", 0, 0)


def test_a_count_says_when_there_may_be_more(acme: Consumer) -> None:
    accept(acme, 5)
    endpoint = new_endpoint(acme)
    wanted = EventFilter(consumer_id=acme.id, missed_by=endpoint.id, patterns=("*",))
    assert [count_events(wanted, window=window) for window in (3, 100)] == [(3, True), (5, False)]
