"""Replay jobs side by side: fair turns by consumer, and what became of each job's own deliveries."""

import threading
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction
from pytest_django import Settings

from deliveries import replay, tasks
from deliveries.browse.filter import Filter
from deliveries.health.breaker import Breaker
from deliveries.models import Delivery
from deliveries.pump import database
from deliveries.replaying import results as replay_results
from deliveries.replaying.models import PutBack, Replay
from deliveries.replaying.results import Results, results
from deliveries.upkeep import retention
from subscriptions import consumers
from subscriptions.models import Consumer, Endpoint
from tests.conftest import Api
from tests.console import logged_in
from tests.walk import accept, answered, claim_for, new_endpoint, pass_time, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)


def start(consumer: Consumer | None, *, rate: int | None = None, **wanted: object) -> Replay:
    asked = Filter(**{"consumer_id": consumer.id if consumer else None, **wanted})  # type: ignore[arg-type]
    return replay.start(asked, consumer=consumer, rate_per_second=rate, requested_by="test")


def finish(endpoint: Endpoint, *status_codes: int) -> None:
    """Answers what is due, each in turn with one of these."""
    claimed = claim_for(endpoint).deliveries
    pairs = [(delivery, status_codes[number % len(status_codes)]) for number, delivery in enumerate(claimed)]
    settle_all(*[answered(delivery, status_code) for delivery, status_code in pairs], breaker=NEVER)


def dead(consumer: Consumer, count: int) -> Endpoint:
    """An endpoint that takes requests, and so many dead letters of it."""
    endpoint = new_endpoint(consumer, retry_schedule=[0], max_in_flight=1000)
    accept(consumer, count)
    finish(endpoint, 500)
    assert states(endpoint) == ["dead"] * count
    return endpoint


# ── fair turns ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_s13_a_hundred_and_twenty_jobs_of_one_consumer_keep_nobody_waiting(acme: Consumer, settings: Settings) -> None:
    """Regression: the hundred oldest jobs had all the turns, for ever."""
    settings.MAX_RUNNING_REPLAYS_PER_CONSUMER = 200
    greedy = dead(acme, 1000)  # enough for all of them: none is done soon
    for _ in range(120):
        start(acme, rate=1)
    globex = consumers.create(uid="globex")
    theirs = dead(globex, 5)
    job = start(globex)

    replay.advance_all()

    assert states(theirs) == ["pending"] * 5
    job.refresh_from_db()
    # Its last turn finds nothing left, and may be one of the next tick.
    replay.advance_all()
    job.refresh_from_db()
    assert (job.status, job.replayed) == ("done", 5)
    assert "pending" in states(greedy)


def test_every_one_of_them_has_its_turn_within_a_few_ticks(acme: Consumer, settings: Settings) -> None:
    settings.MAX_RUNNING_REPLAYS_PER_CONSUMER = 200
    dead(acme, 3)
    made = {start(acme, rate=1).id for _ in range(120)}
    before = dict(Replay.objects.values_list("id", "turn_at"))

    # At least one turn is in every tick, however slow the machine is.
    for _ in range(120):
        replay.advance_all()
        served = {row for row, at in Replay.objects.values_list("id", "turn_at") if at > before[row]}
        if served == made:
            break

    assert served == made


def test_a_job_that_cannot_go_on_does_not_stop_the_others(acme: Consumer) -> None:
    """Regression: whatever one job met ended the tick for all of them, and the next began with it again."""
    stuck = dead(acme, 1)
    held = Delivery.objects.get()
    globex = consumers.create(uid="globex")
    theirs = dead(globex, 2)
    first, second = start(acme), start(globex)
    with psycopg.connect(database.conninfo()) as somebody:
        somebody.execute("SELECT FROM deliveries_delivery WHERE id = %s FOR UPDATE", [held.id])
        for _ in range(2):  # one may be all that waiting for the lock leaves time for
            replay.advance_all()
        assert (states(stuck), states(theirs)) == (["dead"], ["pending"] * 2)
    replay.advance_all()

    assert states(stuck) == ["pending"]
    assert set(Replay.objects.values_list("id", "replayed")) == {(first.id, 1), (second.id, 2)}


def test_one_tick_at_a_time_leaves_the_other_threads_of_a_process_to_other_tasks(acme: Consumer) -> None:
    endpoint = dead(acme, 2)
    held = Delivery.objects.all()[0]
    start(acme)
    begun = threading.Event()

    def tick() -> None:
        try:
            begun.set()
            tasks.advance_replays()
        finally:
            connection.close()

    with psycopg.connect(database.conninfo()) as somebody:
        somebody.execute("SELECT FROM deliveries_delivery WHERE id = %s FOR UPDATE", [held.id])
        first = threading.Thread(target=tick)
        first.start()
        begun.wait(10)
        _wait_for_a_lock()
        tasks.advance_replays()  # comes back at once: nothing was put back, and nobody waits twice
        assert states(endpoint) == ["dead", "dead"]
    first.join(20)
    assert states(endpoint) == ["pending", "pending"]


def _wait_for_a_lock() -> None:
    with connection.cursor() as cursor:
        waits = False
        while not waits:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
            [waits] = cursor.fetchone() or [False]


def test_a_filter_that_finds_little_goes_on_window_by_window_to_its_end(
    acme: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deliveries.browse.source.WINDOW", 10)
    endpoint = new_endpoint(acme, retry_schedule=[0], max_in_flight=1000)
    accept(acme, 1, type="rare")
    accept(acme, 95)
    accept(acme, 1, type="rare")
    finish(endpoint, 500)
    job = start(acme, event_type="rare")
    assert job.matched_is_minimum

    for _ in range(20):
        replay.advance_all()

    job.refresh_from_db()
    assert (job.status, job.replayed, job.matched) == ("done", 2, 2)
    assert set(Delivery.objects.filter(state="pending").values_list("event__type", flat=True)) == {"rare"}


def test_delivered_ones_of_an_endpoint_go_in_the_order_of_their_events(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=1000)
    accept(acme, 30)
    finish(endpoint, 200)
    job = start(acme, state="delivered", endpoint_id=endpoint.id, rate=2)
    for _ in range(6):
        replay.advance_all()
        pass_time(seconds=5)
    replay.advance_all()

    job.refresh_from_db()
    assert (job.status, job.replayed) == ("done", 30)
    by_event, by_due = (Delivery.objects.order_by(name).values_list("id", flat=True) for name in ("event_id", "due_at"))
    assert list(by_event) == list(by_due)


def test_a_payload_that_is_gone_is_not_promised(acme: Consumer) -> None:
    """Regression: the preview counted deliveries whose payload retention had emptied, which no job can take."""
    endpoint = new_endpoint(acme, max_in_flight=1000)
    accept(acme, 3)
    finish(endpoint, 200)
    days = retention.Days(attempts=9, payloads=0, delivered=9, dead=9, audit_entries=9, deleted_endpoints=9)
    retention.forget(days, now=Delivery.objects.latest("created_at").created_at + timedelta(seconds=1))
    accept(acme, 2)
    finish(endpoint, 200)

    job = start(acme, state="delivered")
    replay.advance_all()

    job.refresh_from_db()
    assert (job.matched, job.replayed) == (2, 2)


# ── what became of them ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_s_page_and_answer_count_its_own_deliveries_and_nothing_else(operator: Api, acme: Consumer) -> None:
    """Regression: the page showed all traffic of the endpoint."""
    endpoint = dead(acme, 6)
    job = start(acme, endpoint_id=endpoint.id)
    replay.advance_all()
    [first, second, third, *_] = claim_for(endpoint, limit=3).deliveries
    settle_all(answered(first), answered(second), answered(third, 500), breaker=NEVER)
    accept(acme, 4)  # other traffic, delivered after the rest of the job's
    waiting = operator.get(f"replays/{job.public_id}/").json()
    finish(endpoint, 200)

    page = logged_in("olga", group="Operators").get(f"/admin/replays/{job.public_id}/").content.decode()
    done = operator.get(f"replays/{job.public_id}/").json()

    assert [waiting[name] for name in ("delivered", "dead_again", "waiting")] == [2, 1, 3]
    assert [done[name] for name in ("delivered", "dead_again", "waiting")] == [5, 1, 0]
    assert "Of 6: 5 delivered, 1 dead again, 0 waiting." in " ".join(page.split())
    assert "delivered" not in operator.get("replays/").json()["results"][0]


def test_what_is_over_is_counted_once_and_forgotten_and_the_counts_stay(acme: Consumer) -> None:
    endpoint = dead(acme, 7)
    job = start(acme)
    replay.advance_all()
    [first, second, third, *_] = claim_for(endpoint, limit=3).deliveries
    settle_all(answered(first), answered(second), answered(third, 500), breaker=NEVER)

    for _ in range(3):
        replay_results.count_over(window=2)
    assert (results(job), PutBack.objects.count()) == (Results(delivered=2, dead_again=1, waiting=4), 4)
    finish(endpoint, 500)
    for _ in range(3):
        replay_results.count_over(window=2)

    assert (results(job), PutBack.objects.count()) == (Results(delivered=2, dead_again=5, waiting=0), 0)


def test_a_later_replay_of_the_same_delivery_changes_nothing_about_the_first_job_s_count(acme: Consumer) -> None:
    endpoint = dead(acme, 2)
    first = start(acme)
    replay.advance_all()
    finish(endpoint, 500)
    second = start(acme)
    replay.advance_all()
    finish(endpoint, 200)

    expected = (Results(delivered=0, dead_again=2, waiting=0), Results(delivered=2, dead_again=0, waiting=0))
    assert (results(first), results(second)) == expected
    replay_results.count_over()
    assert (results(first), results(second), PutBack.objects.count()) == (*expected, 0)


def test_a_cancelled_job_counts_what_was_sent(acme: Consumer) -> None:
    endpoint = dead(acme, 5)
    job = start(acme, rate=1)
    replay.advance_all()
    pass_time(seconds=1.5)
    sent = claim_for(endpoint).deliveries
    assert len(sent) == 2
    replay.cancel(job)
    settle_all(*[answered(delivery) for delivery in sent])

    assert (job.replayed, results(job)) == (2, Results(delivered=2, dead_again=0, waiting=0))


def test_two_who_count_at_the_same_moment_count_each_once(acme: Consumer) -> None:
    endpoint = dead(acme, 300)
    job = start(acme)
    replay.advance_all()
    finish(endpoint, 200, 500)

    def count() -> None:
        try:
            replay_results.count_over(window=7)
        finally:
            connection.close()

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for _ in range(100):
        if not PutBack.objects.exists():
            break
        replay_results.count_over(window=50)

    job.refresh_from_db()
    assert (job.delivered, job.dead_again, PutBack.objects.count()) == (150, 150, 0)


def test_a_job_that_somebody_else_works_on_is_not_waited_for_and_counted_the_next_time(acme: Consumer) -> None:
    endpoint = dead(acme, 3)
    job = start(acme)
    replay.advance_all()
    finish(endpoint, 200)

    def count() -> None:
        try:
            replay_results.count_over()
        finally:
            connection.close()

    counting = threading.Thread(target=count)
    with transaction.atomic():
        Replay.objects.select_for_update(no_key=True).get(id=job.id)
        counting.start()
        counting.join(20)
        assert (counting.is_alive(), PutBack.objects.count()) == (False, 3)
    replay_results.count_over()
    assert (results(job), PutBack.objects.count()) == (Results(delivered=3, dead_again=0, waiting=0), 0)


def test_what_a_job_remembers_goes_with_the_job(acme: Consumer) -> None:
    endpoint = dead(acme, 2)
    start(acme)
    replay.advance_all()
    assert PutBack.objects.count() == 2
    days = retention.Days(attempts=999, payloads=999, delivered=999, dead=999, audit_entries=0, deleted_endpoints=9)
    retention.forget(days, now=Replay.objects.get().created_at + timedelta(seconds=5))
    assert (Replay.objects.count(), PutBack.objects.count(), states(endpoint)) == (0, 0, ["pending"] * 2)
