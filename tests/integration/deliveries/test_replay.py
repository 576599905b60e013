"""deliveries/replay.py: finished deliveries go out again, one or many, with the same event id and all their history."""

import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise

import httpx
import pytest
import stripe
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deliveries import replay
from deliveries.health.breaker import Breaker
from deliveries.models import Attempt, Delivery
from deliveries.replaying.models import PutBack, Replay
from deliveries.upkeep import retention
from subscriptions import consumers, endpoints, keys
from subscriptions.models import Consumer, Endpoint, Role
from tests.conftest import Api, PumpRunner
from tests.ledger import ledger
from tests.walk import accept, answered, answering, claim_for, new_endpoint, pass_time, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)


def finish(endpoint: Endpoint, status_code: int) -> None:
    """Answers everything that is due so; with a schedule of one entry, a failure is a dead letter."""
    claimed = claim_for(endpoint).deliveries
    settle_all(*[answered(delivery, status_code) for delivery in claimed], breaker=NEVER)


def one_try(consumer: Consumer, **fields: object) -> Endpoint:
    return new_endpoint(consumer, **{"retry_schedule": [0], "max_in_flight": 1000, **fields})


@pytest.fixture
def requests() -> list[httpx.Request]:
    return []


def recording(requests: list[httpx.Request], status_code: int = 200) -> httpx.MockTransport:
    def take(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(status_code)

    return httpx.MockTransport(take)


# ── one delivery ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("status_code", "state"), [(500, "dead"), (200, "delivered")])
def test_a_finished_delivery_goes_out_again_and_keeps_its_history(
    operator: Api, acme: Consumer, pump: PumpRunner, status_code: int, state: str
) -> None:
    endpoint = one_try(acme)
    accept(acme)
    finish(endpoint, status_code)
    assert states(endpoint) == [state]
    delivery = Delivery.objects.get()

    answer = operator.post(f"deliveries/{delivery.public_id}/replay/")

    assert answer.status_code == 202, answer.content
    shown = answer.json()
    assert (shown["state"], shown["attempt_count"], shown["dead_reason"]) == ("pending", 1, None)
    assert (shown["finished_at"], shown["next_attempt_at"] is not None) == (None, True)
    assert pump.run(transport=answering(200)) == 1
    attempts = operator.get(f"deliveries/{delivery.public_id}/").json()["attempts"]
    assert [(attempt["number"], attempt["status_code"]) for attempt in attempts] == [(1, status_code), (2, 200)]


def test_w04_w05_a_replay_a_week_later_has_the_same_id_and_body_and_still_verifies(
    operator: Api, acme: Consumer, pump: PumpRunner, requests: list[httpx.Request]
) -> None:
    _, secret = endpoints.create(consumer=acme, url="https://receiver.test/", retry_schedule=[0])
    accept(acme)
    pump.run(transport=recording(requests, 500))
    pass_time(days=7)

    operator.post(f"deliveries/{Delivery.objects.get().public_id}/replay/")
    pump.run(transport=recording(requests))

    first, second = requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] == second.headers["webhook-id"]
    assert first.content == second.content
    assert [request.headers["webhook-attempt"] for request in requests] == ["1", "2"]
    assert abs(int(second.headers["webhook-timestamp"]) - time.time()) <= 2
    assert stripe.WebhookSignature.verify_header(
        second.content.decode(), second.headers["webhook-signature"], secret, tolerance=2
    )


def test_a_replay_starts_the_schedule_anew(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0, 0])
    accept(acme)
    finish(endpoint, 500)
    finish(endpoint, 500)
    assert states(endpoint) == ["dead"]

    replay.replay_one(Delivery.objects.get())
    [again] = claim_for(endpoint).deliveries

    assert (again.number, again.attempt_in_round) == (3, 1)
    settle_all(answered(again, 500))
    assert states(endpoint) == ["pending"]
    finish(endpoint, 500)
    assert (states(endpoint), Attempt.objects.count()) == (["dead"], 4)


def test_a_pending_delivery_is_not_replayed(operator: Api, acme: Consumer) -> None:
    new_endpoint(acme)
    accept(acme)
    before = ledger()

    answer = operator.post(f"deliveries/{Delivery.objects.get().public_id}/replay/")

    assert (answer.status_code, answer.json()["code"]) == (409, "not_replayable")
    assert answer.json()["detail"] == "It is pending: it will be attempted without a replay."
    assert ledger() == before


def test_a_delivery_in_flight_is_not_replayed(operator: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    claim_for(endpoint)
    before = ledger()

    answer = operator.post(f"deliveries/{Delivery.objects.get().public_id}/replay/")

    assert (answer.status_code, answer.json()["code"]) == (409, "not_replayable")
    assert ledger() == before


def test_of_two_who_ask_one_starts_the_new_round(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme)
    finish(endpoint, 500)
    delivery = Delivery.objects.get()

    replay.replay_one(delivery)

    with pytest.raises(replay.NotReplayable, match="It is pending"):
        replay.replay_one(delivery)


def test_a_deleted_endpoints_delivery_is_not_replayed(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme)
    finish(endpoint, 500)
    endpoints.delete(endpoint)

    answer = operator.post(f"deliveries/{Delivery.objects.get().public_id}/replay/")

    assert (answer.status_code, answer.json()["detail"]) == (409, "Its endpoint was deleted.")
    assert states(endpoint) == ["dead"]


def test_a_delivery_whose_payload_is_gone_says_so(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme)
    finish(endpoint, 200)
    days = retention.Days(
        attempts=1000, payloads=30, delivered=1000, dead=1000, audit_entries=1000, deleted_endpoints=1000
    )
    retention.forget(days, now=timezone.now() + timedelta(days=31))

    answer = operator.post(f"deliveries/{Delivery.objects.get().public_id}/replay/")

    assert answer.status_code == 409
    assert answer.json()["detail"] == "Its payload was removed when its retention ended."
    assert states(endpoint) == ["delivered"]


def test_a_paused_endpoints_delivery_goes_out_after_its_resumption(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme)
    finish(endpoint, 500)
    endpoints.pause(endpoint)

    replay.replay_one(Delivery.objects.get())
    assert claim_for(endpoint).deliveries == []
    endpoints.resume(endpoint)

    assert len(claim_for(endpoint).deliveries) == 1


def test_w15_a_replayed_delivery_waits_for_the_live_one_of_its_key_and_goes_before_later_ones(acme: Consumer) -> None:
    endpoint = one_try(acme, ordered=True)
    accept(acme, 4, ordering_key="a")
    finish(endpoint, 500)
    [second] = claim_for(endpoint).deliveries

    replay.replay_one(Delivery.objects.get(state="dead"))

    assert claim_for(endpoint).deliveries == []
    sent = []
    settle_all(answered(second))
    while claimed := claim_for(endpoint).deliveries:
        [one] = claimed
        sent.append(Delivery.objects.get(id=one.id).sequence)
        settle_all(answered(one))
    assert sent == [1, 3, 4]


def test_w15_replayed_deliveries_of_one_key_go_one_at_a_time_in_sequence(acme: Consumer) -> None:
    endpoint = one_try(acme, ordered=True)
    accept(acme, 3, ordering_key="a")
    for _ in range(3):
        finish(endpoint, 500)
    assert states(endpoint) == ["dead"] * 3
    replay.start(replay.Filter(), consumer=None, rate_per_second=None, requested_by="test")

    assert replay.advance_all() == 3

    sent = []
    while claimed := claim_for(endpoint).deliveries:
        [one] = claimed
        sent.append(Delivery.objects.get(id=one.id).sequence)
        settle_all(answered(one))
    assert sent == [1, 2, 3]


# ── many: preview and filter ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_counts_per_endpoint_and_changes_nothing(operator: Api, acme: Consumer) -> None:
    more, fewer = one_try(acme), one_try(acme, event_types=["a"])
    accept(acme, 3, type="a")
    accept(acme, 2, type="b")
    finish(more, 500)
    finish(fewer, 500)
    accept(acme, 4)
    finish(more, 200)
    before = ledger()

    answer = operator.post("replays/", {"all": True, "dry_run": True})

    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "matched": 8,
        "by_endpoint": [
            {"endpoint": more.public_id, "matched": 5},
            {"endpoint": fewer.public_id, "matched": 3},
        ],
    }
    assert ledger() == before


def test_a_job_takes_exactly_what_its_filter_says(operator: Api, acme: Consumer) -> None:
    wanted, other = one_try(acme), one_try(acme)
    accept(acme, 2, type="a")
    accept(acme, 3, type="b")
    finish(wanted, 500)
    finish(other, 500)

    answer = operator.post("replays/", {"filter": {"endpoint": wanted.public_id, "event_type": "b"}})
    replay.advance_all()

    assert answer.status_code == 202, answer.content
    assert answer.json()["matched"] == 3
    assert states(wanted) == ["dead"] * 2 + ["pending"] * 3
    assert set(Delivery.objects.filter(state="pending").values_list("event__type", flat=True)) == {"b"}
    assert states(other) == ["dead"] * 5


def test_a_job_may_take_delivered_ones(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 2)
    finish(endpoint, 200)
    accept(acme)
    finish(endpoint, 500)

    operator.post("replays/", {"state": "delivered", "all": True})
    replay.advance_all()

    assert states(endpoint) == ["dead", "pending", "pending"]


def test_a_job_may_ask_for_a_reason(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme)
    finish(endpoint, 500)
    accept(acme)
    [aborted] = claim_for(endpoint).deliveries
    settle_all(answered(aborted, 500, webhook_delivery="abort-message"))

    operator.post("replays/", {"dead_reason": "aborted_by_receiver"})
    replay.advance_all()

    assert Delivery.objects.get(state="pending").id == aborted.id


def test_a_job_may_ask_for_a_span_of_time(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accepted = []
    for _ in range(3):
        accepted += accept(acme)
        # Ids carry milliseconds: what comes in the same one is in the same span.
        until = time.time() + 0.002
        while time.time() < until:
            pass
    finish(endpoint, 500)
    [_, second, third] = sorted(Delivery.objects.all(), key=lambda delivery: delivery.created_at)

    operator.post("replays/", {"since": _time_of(second), "until": _time_of(third)})
    replay.advance_all()

    assert [delivery.id for delivery in Delivery.objects.filter(state="pending")] == [second.id]


def _time_of(delivery: Delivery) -> str:
    return f"{delivery.created_at:%Y-%m-%dT%H:%M:%S.%fZ}"


def test_a_deleted_endpoints_dead_letters_are_not_taken(operator: Api, acme: Consumer) -> None:
    kept, deleted = one_try(acme), one_try(acme)
    accept(acme, 2)
    finish(kept, 500)
    finish(deleted, 500)
    endpoints.delete(deleted)

    answer = operator.post("replays/", {"all": True})
    replay.advance_all()

    assert answer.json()["matched"] == 2
    assert (states(kept), states(deleted)) == (["pending"] * 2, ["dead"] * 2)


# ── many: progress ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_without_a_rate_is_done_in_one_go_and_says_so(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 30)
    finish(endpoint, 500)

    started = operator.post("replays/", {"all": True}).json()
    assert (started["status"], started["matched"], started["replayed"]) == ("running", 30, 0)
    assert (started["rate_per_second"], started["finished_at"]) == (None, None)
    replay.advance_all()

    shown = operator.get(f"replays/{started['id']}/").json()
    assert (shown["status"], shown["matched"], shown["replayed"]) == ("done", 30, 30)
    assert shown["finished_at"] is not None
    assert len(claim_for(endpoint).deliveries) == 30


def test_a_job_that_matches_nothing_is_done_at_once(operator: Api, acme: Consumer) -> None:
    started = operator.post("replays/", {"all": True}).json()

    replay.advance_all()

    assert operator.get(f"replays/{started['id']}/").json()["status"] == "done"


def test_a_job_larger_than_a_batch_goes_on_until_it_is_done(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 1000)
    finish(endpoint, 500)
    accept(acme, 30)
    finish(endpoint, 500)
    replay.start(replay.Filter(), consumer=None, rate_per_second=None, requested_by="test")

    replay.advance_all()
    replay.advance_all()

    assert Replay.objects.get().replayed == 1030
    assert states(endpoint) == ["pending"] * 1030


def due_times() -> list[datetime]:
    return list(Delivery.objects.filter(state="pending").order_by("id").values_list("due_at", flat=True))


def test_a_job_with_a_rate_gives_out_due_times_a_few_seconds_ahead(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 100)
    finish(endpoint, 500)
    started = operator.post("replays/", {"all": True, "rate_per_second": 10}).json()
    assert started["rate_per_second"] == 10

    replay.advance_all()
    first = operator.get(f"replays/{started['id']}/").json()
    pass_time(seconds=2)
    replay.advance_all()
    second = operator.get(f"replays/{started['id']}/").json()

    # A slow machine spends some of the time itself.
    assert 51 <= first["replayed"] < second["replayed"] <= 100
    assert states(endpoint).count("pending") == second["replayed"]
    assert min(later - earlier for earlier, later in pairwise(due_times())) == timedelta(milliseconds=100)


def test_a_job_is_done_when_its_last_delivery_is_due_and_not_before(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 20)
    finish(endpoint, 500)
    replay.start(replay.Filter(), consumer=None, rate_per_second=1, requested_by="test")
    for _ in range(4):
        replay.advance_all()
        pass_time(seconds=5)

    assert (Replay.objects.get().status, Replay.objects.get().replayed) == ("running", 20)
    pass_time(seconds=2)
    replay.advance_all()
    assert Replay.objects.get().status == "done"


@pytest.mark.parametrize("stall", [6, 3600])
def test_a_job_goes_on_at_its_rate_after_a_stall_and_does_not_catch_up(acme: Consumer, stall: int) -> None:
    """Regression: what had gathered in up to five seconds was due on top of what came next."""
    endpoint = one_try(acme)
    accept(acme, 200)
    finish(endpoint, 500)
    replay.start(replay.Filter(), consumer=None, rate_per_second=10, requested_by="test")
    replay.advance_all()
    pass_time(seconds=stall)

    replay.advance_all()
    pass_time(seconds=1)
    replay.advance_all()

    assert min(later - earlier for earlier, later in pairwise(due_times())) == timedelta(milliseconds=100)
    assert states(endpoint).count("dead") > 0  # there is more to come


def test_a_cancelled_job_takes_back_what_was_not_sent(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 100)
    finish(endpoint, 500)
    before = {row["id"]: row for row in Delivery.objects.values()}
    job = operator.post("replays/", {"all": True, "rate_per_second": 10}).json()["id"]
    replay.advance_all()
    pass_time(seconds=0.25)
    sent = claim_for(endpoint, limit=3).deliveries

    answer = operator.post(f"replays/{job}/cancel/")

    assert (answer.status_code, answer.json()["status"], answer.json()["replayed"]) == (200, "cancelled", 3)
    assert answer.json()["finished_at"] is not None
    assert (states(endpoint), PutBack.objects.count()) == (["dead"] * 97 + ["in_flight"] * 3, 3)
    pass_time(seconds=10)
    assert replay.advance_all() == 0
    assert claim_for(endpoint).deliveries == []
    settle_all(*[answered(delivery, 500) for delivery in sent], breaker=NEVER)
    for row in Delivery.objects.exclude(id__in=[each.id for each in sent]).values():
        was = before[row["id"]]
        assert (row["dead_reason"], row["round_base"]) == (was["dead_reason"], was["round_base"])


def test_a_cancelled_job_takes_back_delivered_ones_as_delivered(operator: Api, acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 3)
    finish(endpoint, 200)
    job = replay.start(replay.Filter(state="delivered"), consumer=None, rate_per_second=1, requested_by="test")
    replay.advance_all()
    assert states(endpoint) == ["pending"] * 3

    assert replay.cancel(job)

    assert (states(endpoint), job.replayed) == (["delivered"] * 3, 0)


def test_a_large_job_is_taken_back_part_by_part_with_keys_across_the_parts(acme: Consumer) -> None:
    """Regression: some 100,000 deliveries were one statement, which took longer than the web server waits for it."""
    endpoint = new_endpoint(acme, ordered=True, retry_schedule=[0])
    for key in ("a", "b"):
        accept(acme, 3, ordering_key=key)
    for _ in range(3):
        settle_all(*[answered(delivery, 500) for delivery in claim_for(endpoint).deliveries])
    job = replay.start(replay.Filter(), consumer=None, rate_per_second=2, requested_by="test")
    replay.advance_all()
    assert states(endpoint) == ["pending"] * 6

    with CaptureQueriesContext(connection) as made:
        assert replay.cancel(job, at_once=2)

    assert sum("old_round_base" in query["sql"] for query in made.captured_queries) == 3
    assert list(Delivery.objects.values_list("state", "blocked")) == [("dead", False)] * 6
    assert (job.replayed, PutBack.objects.count()) == (0, 0)


def test_w15_a_cancelled_job_leaves_nothing_waiting_behind_what_it_takes_back(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True, retry_schedule=[0])
    accept(acme, 2, ordering_key="a")
    for _ in range(2):
        settle_all(answered(claim_for(endpoint).deliveries[0], 500))
    job = replay.start(replay.Filter(), consumer=None, rate_per_second=1, requested_by="test")
    replay.advance_all()
    accept(acme, ordering_key="a")  # waits behind both
    assert list(Delivery.objects.order_by("sequence").values_list("blocked", flat=True)) == [False, True, True]

    replay.cancel(job)

    assert list(Delivery.objects.order_by("sequence").values_list("state", "blocked")) == [
        ("dead", False), ("dead", False), ("pending", False),
    ]  # fmt: skip


def test_what_somebody_else_replays_again_is_not_taken_back(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme)
    finish(endpoint, 500)
    job = replay.start(replay.Filter(), consumer=None, rate_per_second=1, requested_by="test")
    replay.advance_all()
    finish(endpoint, 500)
    replay.replay_one(Delivery.objects.get())

    replay.cancel(job)

    assert (states(endpoint), job.replayed) == (["pending"], 1)


def test_cancelling_twice_is_once_and_cancelling_what_is_done_is_refused(operator: Api, acme: Consumer) -> None:
    cancelled = operator.post("replays/", {"all": True}).json()["id"]
    operator.post(f"replays/{cancelled}/cancel/")
    done = operator.post("replays/", {"all": True}).json()["id"]
    replay.advance_all()

    assert operator.post(f"replays/{cancelled}/cancel/").json()["status"] == "cancelled"
    refused = operator.post(f"replays/{done}/cancel/")
    assert (refused.status_code, refused.json()["code"]) == (409, "already_done")


# ── many: at most once ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_goes_on_where_it_was_after_a_crash_in_the_middle_of_a_batch(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 200)
    finish(endpoint, 500)
    replay.start(replay.Filter(), consumer=None, rate_per_second=20, requested_by="test")
    replay.advance_all()
    before = ledger()
    pass_time(seconds=3)

    with pytest.raises(KeyboardInterrupt), transaction.atomic():
        assert replay.advance_all() >= 59
        raise KeyboardInterrupt  # before the commit: what a kill leaves behind

    assert {table: rows for table, (rows, _) in ledger().items()} == {
        table: rows for table, (rows, _) in before.items()
    }
    for _ in range(4):
        pass_time(seconds=5)
        replay.advance_all()
    assert (Replay.objects.get().status, Replay.objects.get().replayed) == ("done", 200)
    assert states(endpoint) == ["pending"] * 200


def test_a_delivery_that_dies_again_under_its_job_is_not_taken_again(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 40)
    finish(endpoint, 500)
    replay.start(replay.Filter(), consumer=None, rate_per_second=10, requested_by="test")
    for _ in range(4):
        pass_time(seconds=1)
        replay.advance_all()
        pass_time(seconds=2)
        finish(endpoint, 500)
    pass_time(seconds=10)
    finish(endpoint, 500)

    assert (Replay.objects.get().status, Replay.objects.get().replayed) == ("done", 40)
    assert set(Delivery.objects.values_list("state", "attempt_count")) == {("dead", 2)}


def test_a_delivery_that_dies_for_the_first_time_under_a_job_waits_for_somebody_to_look(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 2)
    finish(endpoint, 500)
    replay.start(replay.Filter(), consumer=None, rate_per_second=1, requested_by="test")
    [later] = accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 500))
    for _ in range(5):
        pass_time(seconds=1)
        replay.advance_all()

    assert (Replay.objects.get().status, Replay.objects.get().replayed) == ("done", 2)
    assert [delivery.event_id for delivery in Delivery.objects.filter(state="dead")] == [later.id]


def test_two_workers_at_one_job_take_each_delivery_once(acme: Consumer) -> None:
    endpoint = one_try(acme)
    accept(acme, 200)
    finish(endpoint, 500)
    replay.start(replay.Filter(), consumer=None, rate_per_second=None, requested_by="test")
    taken = []

    def work() -> None:
        try:
            taken.append(replay.advance_all())
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert sum(taken) == 200
    assert Replay.objects.get().replayed == 200
    assert len(claim_for(endpoint).deliveries) == 200


# ── whose deliveries ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def globex(db: None) -> Consumer:
    return consumers.create(uid="globex")


def test_a_consumers_job_takes_its_own_deliveries_and_nobody_elses(
    acme: Consumer, acme_api: Api, globex: Consumer
) -> None:
    ours, theirs = one_try(acme), one_try(globex)
    accept(acme, 2)
    accept(globex, 3)
    finish(ours, 500)
    finish(theirs, 500)

    assert acme_api.post("replays/", {"all": True, "dry_run": True}).json()["by_endpoint"] == [
        {"endpoint": ours.public_id, "matched": 2}
    ]
    assert acme_api.post("replays/", {"all": True}).json()["matched"] == 2
    replay.advance_all()

    assert (states(ours), states(theirs)) == (["pending"] * 2, ["dead"] * 3)


def test_a_consumer_may_not_name_somebody_elses_endpoint_consumer_delivery_or_job(
    acme: Consumer, acme_api: Api, globex: Consumer
) -> None:
    theirs = one_try(globex)
    accept(globex)
    finish(theirs, 500)
    delivery = Delivery.objects.get()
    job = replay.start(replay.Filter(consumer_id=globex.id), consumer=globex, rate_per_second=1, requested_by="them")
    before = ledger()

    answers = [
        acme_api.post("replays/", {"endpoint": theirs.public_id}),
        acme_api.post("replays/", {"consumer": "globex"}),
        acme_api.post("replays/", {"consumer": "globex", "dry_run": True}),
        acme_api.post(f"deliveries/{delivery.public_id}/replay/"),
        acme_api.get(f"replays/{job.public_id}/"),
        acme_api.post(f"replays/{job.public_id}/cancel/"),
    ]

    assert [answer.status_code for answer in answers] == [404] * 6
    assert acme_api.get("replays/").json()["results"] == []
    assert ledger() == before


def test_an_operator_may_replay_for_one_consumer(operator: Api, acme: Consumer, globex: Consumer) -> None:
    ours, theirs = one_try(acme), one_try(globex)
    accept(acme)
    accept(globex)
    finish(ours, 500)
    finish(theirs, 500)
    globex_api = Api(keys.issue(role=Role.CONSUMER, consumer=globex)[1])

    job = operator.post("replays/", {"consumer": "globex"}).json()
    replay.advance_all()

    assert (states(ours), states(theirs)) == (["dead"], ["pending"])
    assert globex_api.get(f"replays/{job['id']}/").json()["replayed"] == 1
