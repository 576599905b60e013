"""The outbox: rows commit with the producer's, and leave in order, once, whatever dies."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import httpx
import pytest
from webhooks_client import Retries, Unavailable, Unreachable
from webhooks_client.django import emit

from tests.platform import Platform, accept_batch, problem


@pytest.fixture
def outbox() -> Any:
    from webhooks_client.django.outbox import metrics, models, relay, store

    class Modules:
        Event = models.OutboxEvent
        Lease = relay.Lease
        OutsideTransaction = store.OutsideTransaction
        backlog = staticmethod(metrics.backlog)
        prometheus = staticmethod(metrics.prometheus)
        module = relay

        @staticmethod
        def states() -> list[tuple[str, str]]:
            return list(models.OutboxEvent.objects.order_by("id").values_list("event_id", "state"))

    return Modules


def write(*ids: str, **fields: Any) -> None:
    from django.db import transaction

    for event_id in ids:
        with transaction.atomic():
            emit(**{"consumer": "acme", "type": "order.placed", "data": {"order": event_id}, "id": event_id, **fields})


def sent_ids(platform: Platform) -> list[list[str]]:
    return [[event["id"] for event in body["events"]] for body in platform.bodies()]


def test_an_event_commits_with_the_transaction_it_is_part_of(outbox: Any) -> None:
    write("n-1")
    assert outbox.states() == [("n-1", "pending")]


def test_a_rollback_takes_the_event_back(outbox: Any) -> None:
    from django.db import transaction

    with pytest.raises(RuntimeError), transaction.atomic():
        emit(consumer="acme", type="order.placed", data={})
        raise RuntimeError("no stock")
    assert outbox.states() == []


def test_outside_a_transaction_it_is_refused(outbox: Any) -> None:
    with pytest.raises(outbox.OutsideTransaction, match=r"transaction\.atomic"):
        emit(consumer="acme", type="order.placed", data={})
    assert outbox.states() == []


def test_an_event_without_an_id_gets_one_that_stays(outbox: Any) -> None:
    from django.db import transaction

    with transaction.atomic():
        event_id = emit(consumer="acme", type="order.placed", data={})
    platform = Platform([httpx.ConnectError("gone"), accept_batch])
    outbox.module.send_all(platform.client())
    assert sent_ids(platform) == [[event_id], [event_id]]


def test_every_field_is_sent_as_it_was_emitted(outbox: Any) -> None:
    write(
        "n-1",
        data={"sum": Decimal("1.50"), "é": 1},
        api_version="2",
        ordering_key="k",
        occurred_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    platform = Platform([accept_batch])
    outbox.module.send_all(platform.client())
    assert platform.bodies()[0]["events"] == [
        {
            "consumer": "acme",
            "type": "order.placed",
            "data": {"sum": "1.50", "é": 1},
            "id": "n-1",
            "occurred_at": "2026-01-02T00:00:00+00:00",
            "api_version": "2",
            "ordering_key": "k",
        }
    ]


def test_nan_is_refused_while_the_caller_can_still_do_something(outbox: Any) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write("n-1", data={"x": float("nan")})
    assert outbox.states() == []


def test_events_leave_in_order_batch_by_batch(outbox: Any) -> None:
    write(*(f"n-{number}" for number in range(5)))
    platform = Platform([accept_batch])
    sent = outbox.module.send_all(platform.client(), limit=2)
    assert (sent.accepted, sent.refused) == (5, 0)
    assert sent_ids(platform) == [["n-0", "n-1"], ["n-2", "n-3"], ["n-4"]]
    assert {state for _, state in outbox.states()} == {"accepted"}


def test_a_duplicate_counts_as_accepted(outbox: Any) -> None:
    write("n-1")
    answer = {"results": [{"status": "duplicate", "event": {"id": "n-1"}}]}
    assert outbox.module.send_all(Platform([httpx.Response(202, json=answer)]).client()).accepted == 1
    assert outbox.states() == [("n-1", "accepted")]


def test_a_relay_that_dies_after_the_answer_sends_the_same_again(outbox: Any) -> None:
    write("n-1", "n-2")
    platform = Platform([accept_batch])
    client = platform.client()
    # As far as the answer, and no further.
    list(client.emit_many([outbox.module._event(row) for row in outbox.Event.objects.order_by("id")]))
    assert outbox.states() == [("n-1", "pending"), ("n-2", "pending")]
    outbox.module.send_all(client)
    assert platform.requests[0].content == platform.requests[1].content
    assert outbox.states() == [("n-1", "accepted"), ("n-2", "accepted")]


def test_while_the_platform_is_away_everything_stays_and_keeps_its_order(outbox: Any) -> None:
    write("n-1", "n-2")
    platform = Platform([httpx.ConnectError("gone")])
    with pytest.raises(Unreachable):
        outbox.module.send_all(platform.client(retries=Retries(tries=1)))
    assert outbox.states() == [("n-1", "pending"), ("n-2", "pending")]


def test_what_was_answered_before_an_outage_is_settled(outbox: Any) -> None:
    write("n-1", "n-2", "n-3")

    def one_at_a_time(request: httpx.Request) -> httpx.Response:
        events = json.loads(request.content)["events"]
        if len(events) > 1:
            return problem(413, "payload_too_large")
        return accept_batch(request) if events[0]["id"] == "n-1" else problem(503, "database_unavailable")

    with pytest.raises(Unavailable):
        outbox.module.send_all(Platform([one_at_a_time]).client(retries=Retries(tries=1)))
    assert outbox.states() == [("n-1", "accepted"), ("n-2", "pending"), ("n-3", "pending")]


def test_a_refused_event_is_kept_with_the_reason_and_holds_nobody_up(
    outbox: Any, caplog: pytest.LogCaptureFixture
) -> None:
    write("n-1", "n-2")
    refusal = {"code": "consumer_not_found", "status": 404}
    answer = {"results": [{"status": "refused", "problem": refusal}, {"status": "accepted", "event": {"id": "n-2"}}]}
    sent = outbox.module.send_all(Platform([httpx.Response(202, json=answer)]).client())
    assert (sent.accepted, sent.refused) == (1, 1)
    assert outbox.states() == [("n-1", "refused"), ("n-2", "accepted")]
    assert outbox.Event.objects.get(event_id="n-1").problem == refusal


def test_the_loop_backs_off_while_the_platform_is_away_and_then_goes_on(outbox: Any) -> None:
    write("n-1")
    gone = httpx.ConnectError("gone")
    platform = Platform([gone, gone, gone, accept_batch])
    pauses: list[float] = []
    outbox.module.run(
        platform.client(retries=Retries(tries=1)), stopped=lambda: len(pauses) == 4, sleep=pauses.append, idle_seconds=1
    )
    assert [1 <= pauses[0] <= 2, 2 <= pauses[1] <= 4, 4 <= pauses[2] <= 8] == [True] * 3
    assert pauses[3] == 1
    assert outbox.states() == [("n-1", "accepted")]


def test_the_loop_outlives_a_database_that_is_away(outbox: Any) -> None:
    from django.db import OperationalError, connection

    write("n-1")
    pauses: list[float] = []
    platform = Platform([accept_batch])

    def away(execute: Any, *arguments: Any) -> Any:
        if not pauses:
            raise OperationalError("server closed the connection unexpectedly")
        return execute(*arguments)

    with connection.execute_wrapper(away):
        outbox.module.run(platform.client(), stopped=lambda: len(pauses) == 2, sleep=pauses.append, idle_seconds=1)
    assert 1 <= pauses[0] <= 2
    assert outbox.states() == [("n-1", "accepted")]


def test_an_event_that_makes_its_batch_unreadable_holds_nobody_up(outbox: Any) -> None:
    write("n-1", "n-2", "n-3")

    def reads(request: httpx.Request) -> httpx.Response:
        return problem(400, "invalid_json") if b"n-2" in request.content else accept_batch(request)

    sent = outbox.module.send_all(Platform([reads]).client())
    assert (sent.accepted, sent.refused) == (2, 1)
    assert outbox.states() == [("n-1", "accepted"), ("n-2", "refused"), ("n-3", "accepted")]


def test_a_second_relay_waits_while_one_is_at_work_and_takes_over_when_it_is_gone(outbox: Any) -> None:
    from webhooks_client.django.outbox.models import RelayLease

    write("n-1")
    first = outbox.Lease("default")
    assert (first.take(), first.take()) == (True, True)
    platform = Platform([accept_batch])
    assert outbox.module.send_all(platform.client()).count == 0
    assert platform.requests == []
    # It died and never came back.
    RelayLease.objects.update(until=datetime.now(UTC) - timedelta(seconds=1))
    assert outbox.module.send_all(platform.client()).count == 1
    assert RelayLease.objects.count() == 0


def test_two_relays_at_once_do_no_harm(outbox: Any) -> None:
    write("n-1", "n-2")
    inner = Platform([accept_batch])

    def while_another_sends(request: httpx.Request) -> httpx.Response:
        # The other relay reads, sends and settles while this one waits for its answer.
        outbox.module.send_batch(inner.client())
        results = [{"status": "duplicate", "event": {"id": each}} for each in ("n-1", "n-2")]
        return httpx.Response(202, json={"results": results})

    outer = Platform([while_another_sends])
    outbox.module.send_batch(outer.client())
    assert sent_ids(inner) == sent_ids(outer) == [["n-1", "n-2"]]
    assert outbox.states() == [("n-1", "accepted"), ("n-2", "accepted")]


def test_accepted_events_are_deleted_after_their_time_and_the_others_never(outbox: Any) -> None:
    write("n-1", "n-2", "n-3")
    long_ago = datetime.now(UTC) - timedelta(days=8)
    outbox.Event.objects.filter(event_id="n-1").update(state="accepted", settled_at=long_ago)
    outbox.Event.objects.filter(event_id="n-2").update(state="refused", settled_at=long_ago)
    assert outbox.module.clean_up() == 1
    assert outbox.states() == [("n-2", "refused"), ("n-3", "pending")]


def test_the_backlog_is_a_metric(outbox: Any) -> None:
    write("n-1", "n-2")
    outbox.Event.objects.filter(event_id="n-1").update(state="refused")
    now = outbox.backlog()
    assert (now.pending, now.refused, 0 <= now.oldest_seconds < 60) == (1, 1, True)
    assert "webhooks_outbox_pending 1\n" in outbox.prometheus()
    from django.test import Client

    assert b"webhooks_outbox_refused 1\n" in Client().get("/metrics").content


def test_the_admin_shows_the_backlog_and_sends_refused_events_again(outbox: Any) -> None:
    from django.contrib.auth.models import User
    from django.test import Client

    write("n-1", "n-2")
    outbox.Event.objects.filter(event_id="n-1").update(state="refused", problem={"code": "x"})
    browser = Client()
    browser.force_login(User.objects.create_superuser("ada"))
    page = browser.get("/admin/webhooks_outbox/outboxevent/").content.decode()
    assert "1 pending (the oldest for" in page
    assert "1 refused" in page
    chosen = [row.pk for row in outbox.Event.objects.all()]
    browser.post("/admin/webhooks_outbox/outboxevent/", {"action": "send_again", "_selected_action": chosen})
    assert outbox.states() == [("n-1", "pending"), ("n-2", "pending")]
    assert browser.get(f"/admin/webhooks_outbox/outboxevent/{chosen[0]}/change/").status_code == 200


def test_the_command_says_what_it_sent(outbox: Any) -> None:
    from django.core.management import call_command

    out = StringIO()
    call_command("relay_webhooks", "--once", stdout=out)
    assert out.getvalue() == "0 accepted, 0 refused\n"


def test_the_celery_task_sends_what_is_there(outbox: Any) -> None:
    pytest.importorskip("celery")
    from webhooks_client.django.outbox import tasks

    assert tasks.relay_outbox() == 0
    assert tasks.clean_up_outbox() == 0
