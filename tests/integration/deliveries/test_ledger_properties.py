"""The ledger, moved by two workers on connections of their own in whatever order hypothesis thinks of.

One step at a time, so that the same draws do the same things; races are for tests/faults. After every step: each
accepted delivery is delivered, dead or owed; attempts stay within the schedule and are recorded once; caps hold; each
ordering key has one live head and goes in sequence. A settlement moves exactly what it may.

More of it, drawn anew each time: LEDGER_EXAMPLES=500 pytest tests/integration/deliveries/test_ledger_properties.py
"""

import asyncio
import os
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from django.conf import settings as django_settings
from django.db.models import Count, Exists, F, OuterRef, Q
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg import AsyncConnection

from deliveries import replay, sweep, tasks
from deliveries.claim import Claim, Claimed, claim, renew_lease
from deliveries.health import lifecycle
from deliveries.models import Attempt, Delivery, Event, OrderingKey
from deliveries.pump.models import Lease
from deliveries.pump.release import SHORTAGE, release
from deliveries.replay import Filter
from deliveries.replaying.models import Replay
from deliveries.settle import settle
from subscriptions import consumers, ids
from subscriptions.models import Endpoint
from tests.walk import accept, answered, connect, new_endpoint, unanswered

T = TypeVar("T")

EXAMPLES = int(os.environ.get("LEDGER_EXAMPLES", "0"))
WORKERS = st.integers(0, 1)
SCHEDULE = [0, 0, 0]
CAP = 2

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(3600)]


class Worker:
    """A connection, a lease, and what was claimed under it and not settled yet."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.lease_id = ids.new_uuid()
        self.held: list[Claimed] = []
        # Given back unsent, and the worker does not know that this was written.
        self.unheard: list[Claimed] = []


class Ledger(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.workers = [Worker(self.loop.run_until_complete(_connected())) for _ in range(2)]
        self.consumer = consumers.create(uid=f"c{ids.new_uuid().hex}", name="Acme")
        self.plain = new_endpoint(self.consumer, event_types=["plain.test"], max_in_flight=CAP, retry_schedule=SCHEDULE)
        self.ordered = new_endpoint(
            self.consumer, event_types=["ordered.test"], max_in_flight=CAP, retry_schedule=SCHEDULE, ordered=True
        )
        self.accepted = 0
        self.next_of_key: dict[str, int] = {}
        for worker in self.workers:
            self._renew(worker, seconds=60)
        self.events_are_accepted(3)
        self.events_of_a_key_are_accepted(2, "a")

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        for worker in self.workers:
            self.loop.run_until_complete(worker.connection.close())
        self.loop.close()
        Delivery.objects.all().delete()
        Event.objects.all().delete()
        Replay.objects.all().delete()
        OrderingKey.objects.all().delete()
        Lease.objects.all().delete()

    # ── what may happen ──────────────────────────────────────────────────────────────────────────────────────────────

    @rule(count=st.integers(1, 4))
    def events_are_accepted(self, count: int) -> None:
        accept(self.consumer, count, type="plain.test")
        self.accepted += count

    @rule(count=st.integers(1, 3), key=st.sampled_from(["a", "b"]))
    def events_of_a_key_are_accepted(self, count: int, key: str) -> None:
        accept(self.consumer, count, type="ordered.test", ordering_key=key)
        self.accepted += count

    @rule(place=WORKERS, limit=st.integers(1, 5))
    def a_worker_claims(self, place: int, limit: int) -> None:
        self._take(self.workers[place], self._run(self._claim(self.workers[place], limit)))

    @precondition(lambda self: self._somebody_holds())
    @rule(data=st.data(), status=st.sampled_from([200, 200, 200, 500, 500, 410, None]))
    def a_worker_settles(self, data: st.DataObject, status: int | None) -> None:
        """In time or late: whoever holds it settles it, and only an attempt that is still waited for moves."""
        worker = self._holder(data)
        chosen = data.draw(st.lists(st.sampled_from(worker.held), min_size=1, unique_by=lambda each: each.id))
        worker.held = [each for each in worker.held if each not in chosen]
        awaited = set(
            Delivery.objects.filter(state="in_flight", id__in=[each.id for each in chosen]).values_list(
                "id", "attempt_count"
            )
        )
        outcomes = [unanswered(each) if status is None else answered(each, status) for each in chosen]
        settled = self._run(settle(worker.connection, outcomes, breaker=tasks.breaker()))
        assert settled.moved == awaited & {(each.id, each.number) for each in chosen}

    @precondition(lambda self: self._somebody_holds())
    @rule(data=st.data(), heard=st.booleans())
    def a_worker_cannot_send_what_it_holds(self, data: st.DataObject, heard: bool) -> None:
        """It goes back, and a second later it is due again."""
        worker = self._holder(data)
        chosen = worker.held.pop()
        self._release(worker, chosen)
        Delivery.objects.filter(state="pending", due_at__gt=_now()).update(due_at=F("due_at") - timedelta(seconds=1))
        if not heard:
            worker.unheard.append(chosen)

    @precondition(lambda self: any(worker.unheard for worker in self.workers))
    @rule(place=WORKERS)
    def a_worker_gives_back_what_it_gave_back_before(self, place: int) -> None:
        """By now somebody else may have claimed it, under the same number."""
        worker = self.workers[place]
        while worker.unheard:
            self._release(worker, worker.unheard.pop())

    def _release(self, worker: Worker, claimed: Claimed) -> None:
        row = Delivery.objects.filter(id=claimed.id, state="in_flight")
        this_claim = row.filter(attempt_count=claimed.number, due_at=claimed.due_at).exists()
        before = row.exists()
        outcome = unanswered(claimed)._replace(error_kind=SHORTAGE, claimed_due_at=claimed.due_at)
        self._run(release(worker.connection, [outcome]))
        assert row.exists() == (before and not this_claim)

    @rule(place=WORKERS)
    def a_lease_runs_out(self, place: int) -> None:
        """The worker goes on, and does not know."""
        self._renew(self.workers[place], seconds=-1)

    @precondition(lambda self: self._somebody_holds())
    @rule(data=st.data())
    def a_worker_is_away_for_longer_than_its_lease(self, data: st.DataObject) -> None:
        """The sweep puts back what it held; then it is here again, holds it all the same, and goes on."""
        worker = self._holder(data)
        self._renew(worker, seconds=-1)
        self._sweep(worker)
        self._renew(worker, seconds=60)

    @rule(place=WORKERS)
    def a_lease_is_renewed(self, place: int) -> None:
        self._renew(self.workers[place], seconds=60)

    @rule(place=WORKERS)
    def a_worker_dies_and_another_starts(self, place: int) -> None:
        worker = self.workers[place]
        self._renew(worker, seconds=-1)
        worker.held, worker.unheard, worker.lease_id = [], [], ids.new_uuid()
        self._renew(worker, seconds=60)

    @rule(place=WORKERS)
    def the_sweep_runs(self, place: int) -> None:
        self._sweep(self.workers[place])

    def _sweep(self, worker: Worker) -> None:
        schedule = list(django_settings.DELIVERY_RETRY_SCHEDULE)
        self._run(sweep.recover_lost(worker.connection, schedule=schedule, breaker=tasks.breaker()))
        alive = Lease.objects.filter(id=OuterRef("leased_by"), expires_at__gt=_now())
        assert not Delivery.objects.filter(state="in_flight").exclude(Exists(alive)).exists()

    @rule(data=st.data())
    def somebody_replays_one(self, data: st.DataObject) -> None:
        finished = list(Delivery.objects.filter(state__in=["delivered", "dead"]).order_by("id"))
        if finished:
            replay.replay_one(data.draw(st.sampled_from(finished)))

    @rule(cancelled=st.booleans())
    def somebody_replays_all_dead_letters(self, cancelled: bool) -> None:
        job = replay.start(Filter(), consumer=self.consumer, rate_per_second=None, requested_by="olga")
        replay.advance_all()
        if cancelled:
            replay.cancel(job)
        Replay.objects.filter(id=job.id, status="running").update(status="done", finished_at=_now())

    @rule(which=st.sampled_from(["plain", "ordered"]), paused=st.sampled_from([True, False, False]))
    def an_endpoint_is_paused_or_resumed(self, which: str, paused: bool) -> None:
        endpoint: Endpoint = getattr(self, which)
        (lifecycle.pause if paused else lifecycle.resume)(endpoint, reason="test")

    @rule(ordered=st.booleans())
    def an_endpoint_wants_order_or_not(self, ordered: bool) -> None:
        """Turned on, the backlog is put in order; what is in flight then ends by itself."""
        if not Delivery.objects.filter(endpoint=self.plain, state="in_flight").exists():
            lifecycle.update(self.plain, {"ordered": ordered})

    # ── what must hold ───────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "loop"):
            return
        counted = Delivery.objects.aggregate(
            all=Count("id"),
            finished=Count("id", filter=Q(state__in=["delivered", "dead"])),
            owed=Count("id", filter=Q(state__in=["pending", "in_flight"])),
        )
        assert counted["all"] == counted["finished"] + counted["owed"] == self.accepted

    @invariant()
    def attempts_stay_within_the_schedule_and_are_recorded_once(self) -> None:
        if not hasattr(self, "loop"):
            return
        assert not Delivery.objects.filter(attempt_count__gt=F("round_base") + len(SCHEDULE)).exists()
        rows = Delivery.objects.annotate(recorded=Count("attempts"))
        wrong = rows.exclude(state="in_flight", recorded=F("attempt_count") - 1).exclude(
            ~Q(state="in_flight"), recorded=F("attempt_count")
        )
        assert list(wrong.values_list("state", "attempt_count", "recorded")) == []

    @invariant()
    def delivered_means_that_the_last_attempt_was_answered_2xx(self) -> None:
        if not hasattr(self, "loop"):
            return
        success = Attempt.objects.filter(delivery=OuterRef("id"), status_code=200, number=OuterRef("attempt_count"))
        assert not Delivery.objects.filter(state="delivered").exclude(Exists(success)).exists()

    @invariant()
    def no_endpoint_has_more_in_flight_than_its_cap(self) -> None:
        if not hasattr(self, "loop"):
            return
        flying = Delivery.objects.filter(state="in_flight").values("endpoint").annotate(count=Count("id"))
        assert all(row["count"] <= CAP for row in flying)

    @invariant()
    def each_key_has_one_live_head_and_nobody_waits_behind_nobody(self) -> None:
        if not hasattr(self, "loop"):
            return
        keyed = Delivery.objects.filter(state__in=["pending", "in_flight"], ordering_key__isnull=False)
        heads = keyed.filter(blocked=False).values("endpoint", "ordering_key").annotate(count=Count("id"))
        live = {(row["endpoint"], row["ordering_key"]): row["count"] for row in heads}
        assert set(live.values()) <= {1}
        assert set(keyed.values_list("endpoint", "ordering_key")) == set(live)

    # ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _claim(self, worker: Worker, limit: int) -> Awaitable[Claim]:
        return claim(
            worker.connection,
            endpoint_ids=[self.plain.id, self.ordered.id],
            lease_id=worker.lease_id,
            share=limit,
            limit=limit,
        )

    def _somebody_holds(self) -> bool:
        return any(worker.held for worker in self.workers)

    def _holder(self, data: st.DataObject) -> Worker:
        return data.draw(st.sampled_from([worker for worker in self.workers if worker.held]))

    def _take(self, worker: Worker, claimed: Claim) -> None:
        worker.held += claimed.deliveries
        for delivery in claimed.deliveries:
            if delivery.endpoint_id == self.ordered.id and delivery.number == 1:
                self._check_sequence(delivery)

    def _check_sequence(self, delivery: Claimed) -> None:
        """First attempts of a key come in sequence, none skipped."""
        assert delivery.ordering_key is not None
        sequence = Delivery.objects.get(id=delivery.id).sequence
        assert sequence == self.next_of_key.get(delivery.ordering_key, 1)
        self.next_of_key[delivery.ordering_key] = sequence + 1

    def _renew(self, worker: Worker, *, seconds: float) -> None:
        self._run(renew_lease(worker.connection, lease_id=worker.lease_id, worker="w", seconds=seconds))

    def _run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(_awaited(work))


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _connected() -> AsyncConnection:
    return await connect()


def _now() -> Any:
    from django.db.models.functions import Now

    return Now()


def test_whatever_workers_and_people_do_the_ledger_keeps_its_promises(transactional_db: None) -> None:
    chosen = settings(
        max_examples=EXAMPLES or 20,
        stateful_step_count=30,
        deadline=None,
        # The same ones each time, unless somebody asks for more.
        derandomize=not EXAMPLES,
        database=None,
        # Who only wants to know whether something is found does not wait for the shortest example of it.
        phases=[Phase.generate] if os.environ.get("LEDGER_SHRINK") == "no" else list(Phase),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Ledger, settings=chosen)
