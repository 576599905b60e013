"""What operators do by hand: each action happens, guarded by the state it was seen in, and leaves an audit entry."""

import pytest
from django.test import Client

from deliveries.health.models import Hold, Notice
from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from subscriptions import endpoints
from subscriptions.models import AuditEntry, Consumer, Endpoint
from tests.console import dead_letters, logged_in
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga", group="Operators")


def entries() -> list[tuple[str, str, str, int, str]]:
    rows = AuditEntry.objects.order_by("id")
    return [(entry.actor, entry.action, entry.target, entry.count, entry.why) for entry in rows]


def test_a_dead_letter_is_replayed_once(operator: Client, acme: Consumer) -> None:
    endpoint, [delivery] = dead_letters(acme, 1)
    path = f"/admin/deliveries/{delivery.public_id}/replay/"
    operator.post(path, {"why": "fixed"})
    operator.post(path, {"why": "again"})
    assert states(endpoint) == ["pending"]
    assert entries() == [("user olga", "delivery.replayed", delivery.public_id, 1, "fixed")]


def test_retry_now_makes_a_waiting_delivery_due(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, retry_schedule=[0, 3600])
    accept(acme)
    settle_all(*(answered(each, 500) for each in claim_for(endpoint).deliveries))
    assert claim_for(endpoint).deliveries == []
    delivery = Delivery.objects.get()
    operator.post(f"/admin/deliveries/{delivery.public_id}/retry-now/")
    assert [each.id for each in claim_for(endpoint).deliveries] == [delivery.id]
    assert entries() == [("user olga", "delivery.retried_now", delivery.public_id, 1, "")]


def test_giving_up_ends_a_delivery_and_lets_the_next_of_its_key_go(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    first, second = accept(acme, 2, ordering_key="k")
    head = Delivery.objects.get(event_id=first.id)
    operator.post(f"/admin/deliveries/{head.public_id}/give-up/", {"why": "poison"})
    head.refresh_from_db()
    assert (head.state, head.dead_reason) == ("dead", "given_up")
    assert [each.event_id for each in claim_for(endpoint).deliveries] == [second.id]


def test_giving_up_a_blocked_delivery_leaves_its_key_s_turn_alone(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    events = accept(acme, 3, ordering_key="k")
    middle = Delivery.objects.get(event_id=events[1].id)
    operator.post(f"/admin/deliveries/{middle.public_id}/give-up/")
    assert Delivery.objects.filter(blocked=True).get().event_id == events[2].id
    assert [each.event_id for each in claim_for(endpoint).deliveries] == [events[0].id]


def test_what_is_in_flight_cannot_be_given_up(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    claim_for(endpoint)
    delivery = Delivery.objects.get()
    answer = operator.post(f"/admin/deliveries/{delivery.public_id}/give-up/", follow=True)
    assert b"so nothing was changed" in answer.content
    assert (states(endpoint), entries()) == (["in_flight"], [])


def test_an_event_is_resent_to_all_or_to_one(operator: Client, acme: Consumer) -> None:
    one, two = new_endpoint(acme), new_endpoint(acme)
    [event] = accept(acme)
    settle_all(*(answered(each) for each in claim_for(one, two).deliveries))
    only = Delivery.objects.get(endpoint=one)
    operator.post(f"/admin/events/{event.id}/resend/", {"delivery": only.public_id, "why": "lost there"})
    assert (states(one), states(two)) == (["pending"], ["delivered"])
    operator.post(f"/admin/events/{event.id}/resend/", {"why": "all"})
    assert (states(one), states(two)) == (["pending"], ["pending"])
    assert [entry[1:4] for entry in entries()] == [("event.resent", event.public_id, 1)] * 2


def test_an_endpoint_is_paused_resumed_and_disabled(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    path = f"/admin/endpoints/{endpoint.public_id}"
    for action, status in [("pause", "paused"), ("resume", "active"), ("disable", "disabled")]:
        operator.post(f"{path}/{action}/", {"why": f"to {action}"})
        endpoint.refresh_from_db()
        assert endpoint.status == status
    assert [entry[1] for entry in entries()] == ["endpoint.paused", "endpoint.resumed", "endpoint.disabled"]
    assert list(Notice.objects.order_by("id").values_list("kind", "reason")) == [
        ("paused", "by olga: to pause"), ("resumed", "by olga: to resume"), ("disabled", "by olga: to disable"),
    ]  # fmt: skip


def test_disabling_wants_a_reason(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    operator.post(f"/admin/endpoints/{endpoint.public_id}/disable/")
    endpoint.refresh_from_db()
    assert (endpoint.status, entries()) == ("active", [])


def test_probe_now_ends_the_breaker_s_wait(operator: Client, acme: Consumer) -> None:
    endpoint, _ = dead_letters(acme, 25)
    accept(acme)
    endpoint.lane.refresh_from_db()
    assert endpoint.lane.breaker_open
    assert claim_for(endpoint).deliveries == []
    operator.post(f"/admin/endpoints/{endpoint.public_id}/probe/")
    assert len(claim_for(endpoint).deliveries) == 1
    assert entries()[0][1] == "endpoint.probed"


def test_a_rotated_secret_is_shown_once_and_not_cached(operator: Client, acme: Consumer) -> None:
    endpoint, old = endpoints.create(consumer=acme, url="https://receiver.test/hook")
    path = f"/admin/endpoints/{endpoint.public_id}/rotate/"
    answer = operator.post(path, {"why": "leaked", "overlap_seconds": "0"}, follow=True)
    assert b"whsec_" in answer.content
    assert old.encode() not in answer.content
    assert "no-store" in answer.headers["Cache-Control"]
    assert b"whsec_" not in operator.get(f"/admin/endpoints/{endpoint.public_id}/").content
    assert b"whsec_" not in operator.get("/admin/audit/").content
    assert entries() == [("user olga", "endpoint.secret_rotated", endpoint.public_id, 1, "leaked")]
    assert Endpoint.objects.get().previous_secret_encrypted is None


def test_all_that_match_are_replayed_as_a_job(operator: Client, acme: Consumer) -> None:
    endpoint, _ = dead_letters(acme, 7)
    answer = operator.post(
        "/admin/dead-letters/replay/start/", {"endpoint": endpoint.public_id, "rate": "100", "why": "fixed"}
    )
    job = Replay.objects.get()
    assert answer.headers["Location"] == f"/admin/replays/{job.public_id}/"
    assert (job.matched, job.rate_per_second, job.requested_by) == (7, 100, "user olga")
    assert entries() == [("user olga", "replay.started", job.public_id, 7, "fixed")]


def test_those_selected_are_replayed_and_no_others(operator: Client, acme: Consumer) -> None:
    from deliveries import replay

    endpoint, found = dead_letters(acme, 5)
    chosen = [delivery.public_id for delivery in found[:2]]
    assert operator.get("/admin/dead-letters/replay/", {"delivery": chosen}).context["matched"] == 2
    operator.post("/admin/dead-letters/replay/start/", {"delivery": chosen, "rate": "", "why": "these two"})
    assert replay.advance_all() == 2
    assert states(endpoint) == ["dead", "dead", "dead", "pending", "pending"]


@pytest.mark.parametrize("form", [{"all": "yes", "rate": "5"}, {"all": "yes", "rate": "0", "why": "x"},
                                  {"all": "yes", "rate": "many", "why": "x"}, {"why": "x"},
                                  {"until": "1960-01-01", "why": "x"}, {"delivery": "dlv_x", "why": "x"},
                                  {"within": "5d", "why": "x"}, {"consumer": "nobody", "why": "x"}])  # fmt: skip
def test_a_replay_that_makes_no_sense_is_not_started(operator: Client, acme: Consumer, form: dict[str, str]) -> None:
    dead_letters(acme, 1)
    operator.post("/admin/dead-letters/replay/start/", form)
    assert (Replay.objects.count(), entries()) == (0, [])


def test_a_replay_is_cancelled_with_what_is_left_in_the_audit_log(operator: Client, acme: Consumer) -> None:
    dead_letters(acme, 3)
    operator.post("/admin/dead-letters/replay/start/", {"all": "yes", "rate": "1", "why": "slowly"})
    job = Replay.objects.get()
    operator.post(f"/admin/replays/{job.public_id}/cancel/", {"why": "wrong ones"})
    job.refresh_from_db()
    assert job.status == "cancelled"
    assert entries()[-1] == ("user olga", "replay.cancelled", job.public_id, 3, "wrong ones")


def test_a_kill_switch_shows_in_a_banner_on_every_page_until_it_is_off(operator: Client, acme: Consumer) -> None:
    operator.post("/admin/switches/on/", {"scope": "everything", "why": "bad deploy"})
    assert Hold.objects.get().reason == "bad deploy"
    assert b"Held: nothing goes out" in operator.get("/admin/").content
    for path in ("", "dead-letters/", "event-types/"):
        assert (
            b"Everything is held: nothing goes out."
            in logged_in(f"reader{path}", is_superuser=True).get(f"/admin/{path}").content
        )
    operator.post("/admin/switches/off/", {"scope": "everything", "why": "fixed"})
    assert b"nothing goes out.</strong>" not in operator.get("/admin/").content
    assert [entry[1] for entry in entries()] == ["hold.put_on", "hold.taken_off"]
