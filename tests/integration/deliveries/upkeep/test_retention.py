"""deliveries/upkeep/retention.py: each kind is forgotten at its time, what is still owed never."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from deliveries import replay, tasks
from deliveries.actions import endpoints as actions
from deliveries.health import lifecycle
from deliveries.health.models import Notice
from deliveries.models import Attempt, Delivery, Event
from deliveries.replay import Filter
from deliveries.replaying.models import Replay
from deliveries.upkeep import retention
from deliveries.upkeep.models import Housekeeping
from deliveries.upkeep.retention import Days
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry, Consumer, Endpoint
from tests.conftest import Api
from tests.ledger import ledger
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

DAYS = Days(attempts=30, payloads=40, delivered=90, dead=180, audit_entries=730, deleted_endpoints=7)


def forget_after(days: float, *, batches: int = 200) -> dict[str, int]:
    return retention.forget(DAYS, now=timezone.now() + timedelta(days=days), batches=batches)


def finish(endpoint: Endpoint, status_code: int) -> None:
    settle_all(*[answered(delivery, status_code) for delivery in claim_for(endpoint).deliveries])


def delivered(consumer: Consumer, count: int = 1) -> Endpoint:
    endpoint = new_endpoint(consumer, max_in_flight=1000)
    accept(consumer, count)
    finish(endpoint, 200)
    assert states(endpoint) == ["delivered"] * count
    return endpoint


def dead(consumer: Consumer) -> Endpoint:
    endpoint = new_endpoint(consumer, retry_schedule=[0])
    accept(consumer)
    finish(endpoint, 500)
    assert states(endpoint) == ["dead"]
    return endpoint


def kept() -> dict[str, int]:
    return {
        "attempts": Attempt.objects.count(),
        "payloads": Event.objects.filter(body__isnull=False).count(),
        "deliveries": Delivery.objects.count(),
        "events": Event.objects.count(),
    }


def test_nothing_is_forgotten_before_its_time(acme: Consumer) -> None:
    delivered(acme)
    dead(acme)
    before = ledger()

    forget_after(29.9)

    after = ledger()
    del before["deliveries_housekeeping"], after["deliveries_housekeeping"]
    assert after == before


def test_a_delivered_event_is_forgotten_piece_by_piece(acme: Consumer) -> None:
    delivered(acme)
    story = []
    for days in (29.9, 30.1, 39.9, 40.1, 89.9, 90.1, 179.9, 180.1):
        forget_after(days)
        story.append(tuple(kept().values()))

    # Attempts, payloads, deliveries, events.
    assert story == [
        (1, 1, 1, 1),
        (0, 1, 1, 1),
        (0, 1, 1, 1),
        (0, 0, 1, 1),
        (0, 0, 1, 1),
        (0, 0, 0, 1),
        (0, 0, 0, 1),
        (0, 0, 0, 0),
    ]


def test_a_dead_letter_keeps_its_payload_until_its_own_time_is_over(acme: Consumer) -> None:
    endpoint = dead(acme)

    forget_after(179.9)
    assert (states(endpoint), kept()["payloads"]) == (["dead"], 1)
    replay.replay_one(Delivery.objects.get())
    assert len(claim_for(endpoint).deliveries) == 1


def test_a_dead_letter_goes_with_its_attempts_its_notice_and_its_event(acme: Consumer) -> None:
    dead(acme)

    forget_after(180.1)

    assert kept() == {"attempts": 0, "payloads": 0, "deliveries": 0, "events": 0}
    assert Notice.objects.count() == 0


def test_what_is_still_owed_is_kept_with_its_payload_for_as_long_as_it_takes(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    claim_for(endpoint, limit=1)

    forget_after(5000)

    assert states(endpoint) == ["in_flight", "pending"]
    assert kept() == {"attempts": 0, "payloads": 2, "deliveries": 2, "events": 2}


def test_a_payload_is_kept_while_one_of_its_deliveries_is_not_over(acme: Consumer) -> None:
    done, waiting = new_endpoint(acme), new_endpoint(acme)
    accept(acme)
    finish(done, 200)

    forget_after(40.1)
    assert kept()["payloads"] == 1
    finish(waiting, 200)
    # The weeks go round: what was passed over in one is looked at again in the next.
    forget_after(50)

    assert kept()["payloads"] == 0


def test_what_was_still_owed_at_its_time_is_forgotten_once_it_is_over(acme: Consumer) -> None:
    """Regression: the position had passed it, so it was kept for ever, and its event with it."""
    endpoint = new_endpoint(acme)
    accept(acme)
    forget_after(200)
    assert kept() == {"attempts": 0, "payloads": 1, "deliveries": 1, "events": 1}

    finish(endpoint, 200)
    forget_after(210)

    assert kept() == {"attempts": 0, "payloads": 0, "deliveries": 0, "events": 0}


def test_a_delivery_that_was_dead_once_and_delivered_by_a_replay_is_forgotten_too(acme: Consumer) -> None:
    """Regression: the notice of its death referred to it, and the database refused, again and again."""
    endpoint = dead(acme)
    replay.replay_one(Delivery.objects.get())
    finish(endpoint, 200)

    forget_after(90.1)
    assert (kept()["deliveries"], Notice.objects.count()) == (0, 1)
    # The endpoint's timeline keeps the death for as long as a dead letter would have been kept.
    forget_after(180.1)
    assert Notice.objects.count() == 0


def test_what_people_did_by_hand_is_forgotten_after_its_own_time(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    lifecycle.pause(endpoint, reason="")
    actions.resume(endpoint, actor=Actor.of_user("olga"), why="")
    over = replay.start(Filter(), consumer=acme, rate_per_second=None, requested_by="olga")
    replay.advance_all()
    running = replay.start(Filter(), consumer=acme, rate_per_second=None, requested_by="olga")

    forget_after(729.9)
    assert (AuditEntry.objects.count(), set(Replay.objects.all())) == (1, {over, running})
    forget_after(730.1)
    assert (AuditEntry.objects.count(), set(Replay.objects.all())) == (0, {running})


def test_no_foreign_key_makes_forgetting_a_row_look_for_others(acme: Consumer) -> None:
    """Regression: without an index, each dead letter that was forgotten read all notices there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND confrelid = ANY (%s::regclass[])",
            [
                [
                    *(f"deliveries_{name}" for name in ("attempt", "event", "delivery", "notice", "replay")),
                    "subscriptions_auditentry",
                ]
            ],
        )
        assert cursor.fetchall() == []


def test_an_event_nobody_wanted_is_forgotten_like_the_others(acme: Consumer) -> None:
    accept(acme)

    forget_after(40.1)
    assert kept() == {"attempts": 0, "payloads": 0, "deliveries": 0, "events": 1}
    forget_after(180.1)
    assert kept()["events"] == 0


def test_a_payload_that_is_gone_says_so(operator: Api, acme: Consumer) -> None:
    delivered(acme)
    event = Event.objects.get()
    assert operator.get(f"events/{event.public_id}/").json()["data"] == {"number": 0}

    forget_after(40.1)

    shown = operator.get(f"events/{event.public_id}/")
    assert (shown.status_code, shown.json()["data"], shown.json()["type"]) == (200, None, "invoice.paid")
    assert operator.post(f"deliveries/{Delivery.objects.get().public_id}/replay/").status_code == 409


def test_a_run_looks_at_so_many_batches_and_the_next_goes_on_from_there(acme: Consumer) -> None:
    delivered(acme, 700)

    looked_at = [forget_after(30.1, batches=1)["attempts"] for _ in range(3)]

    assert looked_at == [500, 200, 0]
    assert Attempt.objects.count() == 0


def test_looking_twice_in_one_week_reads_nothing_twice(acme: Consumer) -> None:
    dead(acme)

    first, second = forget_after(100), forget_after(100)

    assert (first["delivered"], second["delivered"]) == (1, 0)


def test_only_this_weeks_positions_are_kept(acme: Consumer) -> None:
    delivered(acme)
    for days in (31, 45, 100):
        forget_after(days)

    assert Housekeeping.objects.count() == 9


def test_the_periodic_task_keeps_what_is_young(acme: Consumer) -> None:
    delivered(acme)

    tasks.forget()

    assert kept() == {"attempts": 1, "payloads": 1, "deliveries": 1, "events": 1}
