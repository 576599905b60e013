"""deliveries/health/lifecycle.py and subscriptions/endpoints.py: an endpoint's life where deliveries feel it."""

import logging
import threading
from typing import Any

import httpx
import orjson
import pytest
import stripe
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from deliveries import ingest, replay
from deliveries.health import lifecycle
from deliveries.health.breaker import Breaker
from deliveries.health.models import Notice
from deliveries.ingest import NewEvent
from deliveries.models import Attempt, Delivery
from deliveries.upkeep import overdue
from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint, Lane
from tests.conftest import Api, PumpRunner
from tests.ledger import ledger
from tests.receiver import Receiver, Reply
from tests.walk import (
    accept,
    answered,
    answering,
    claim_for,
    hold_until_somebody_waits,
    new_endpoint,
    pass_time,
    settle_all,
    states,
)

pytestmark = pytest.mark.django_db(transaction=True)

BREAKER = Breaker(failures=2, first_cooldown=10, longest_cooldown=1800)


class Wire(httpx.MockTransport):
    """Every receiver there is, remembering what it got."""

    def __init__(self, status_code: int = 200, **headers: str) -> None:
        self.requests: list[httpx.Request] = []
        self._answer = {"status_code": status_code, "headers": headers}
        super().__init__(self._take)

    def _take(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(self._answer["status_code"], headers=self._answer["headers"])  # type: ignore[arg-type]


def notices(endpoint: Endpoint) -> list[tuple[str, str]]:
    return list(Notice.objects.filter(endpoint=endpoint).order_by("id").values_list("kind", "reason"))


def reloaded(endpoint: Endpoint) -> Endpoint:
    return Endpoint.objects.get(id=endpoint.id)


# ── pause and resume ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_paused_endpoints_backlog_waits_and_goes_out_after_its_resumption(
    producer: Api, acme: Consumer, acme_api: Api, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)

    paused = acme_api.post(f"endpoints/{endpoint.public_id}/pause/")
    accept(acme)
    assert (paused.status_code, paused.json()["status"]) == (200, "paused")
    assert pump.run(transport=answering(200)) == 0
    resumed = acme_api.post(f"endpoints/{endpoint.public_id}/resume/")

    assert (resumed.status_code, resumed.json()["status"]) == (200, "active")
    assert pump.run(transport=answering(200)) == 3
    assert set(Delivery.objects.values_list("state", "attempt_count")) == {("delivered", 1)}
    assert notices(endpoint) == [("paused", "by a consumer"), ("resumed", "by a consumer")]


def test_pausing_what_is_paused_and_resuming_what_is_active_is_no_news(acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)

    assert acme_api.post(f"endpoints/{endpoint.public_id}/resume/").json()["status"] == "active"
    for _ in range(2):
        assert acme_api.post(f"endpoints/{endpoint.public_id}/pause/").json()["status"] == "paused"

    assert [kind for kind, _ in notices(endpoint)] == ["paused"]


def test_a_request_in_flight_when_its_endpoint_is_paused_is_settled(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    endpoints.pause(endpoint)

    settle_all(answered(claimed))

    assert states(endpoint) == ["delivered"]


def test_an_endpoint_resumed_behind_an_open_breaker_starts_anew_with_a_slow_start(acme: Consumer) -> None:
    """Regression: the database refuses an open breaker without failures, so such an endpoint could not be resumed."""
    endpoint = new_endpoint(acme)
    accept(acme, 12)
    settle_all(*[answered(delivery, 500) for delivery in claim_for(endpoint, limit=2).deliveries], breaker=BREAKER)
    lifecycle.pause(endpoint, reason="test")

    lifecycle.resume(endpoint, reason="test")

    lane = Lane.objects.get()
    assert (lane.breaker_open, lane.failure_count, lane.cooldown_seconds, lane.allowance) == (False, 0, 0, 1)
    assert (lane.failing_since, lane.last_failure_at, lane.warning_count) == (None, None, 0)
    [probe] = claim_for(endpoint).deliveries
    settle_all(answered(probe), breaker=BREAKER)
    assert len(claim_for(endpoint).deliveries) == 2


def test_an_endpoint_that_moves_behind_an_open_breaker_starts_anew_with_a_slow_start(
    acme: Consumer, acme_api: Api
) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 12)
    settle_all(*[answered(delivery, 500) for delivery in claim_for(endpoint, limit=2).deliveries], breaker=BREAKER)
    assert claim_for(endpoint).deliveries == []
    assert acme_api.patch(f"endpoints/{endpoint.public_id}/", {"url": endpoint.url}).status_code == 200
    assert Lane.objects.get().breaker_open is True  # it did not move

    acme_api.patch(f"endpoints/{endpoint.public_id}/", {"url": "https://192.0.43.8/hook"})

    lane = Lane.objects.get()
    assert (lane.breaker_open, lane.failure_count, lane.cooldown_seconds, lane.allowance) == (False, 0, 0, 1)
    assert list(Notice.objects.filter(kind="breaker_closed").values_list("reason", flat=True)) == [
        "its URL was changed"
    ]
    [probe] = claim_for(endpoint).deliveries
    assert probe.url == "https://192.0.43.8/hook"


# ── receivers that want no more ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(status=410), "The receiver answered 410 Gone."),
        (
            Reply(status=500, headers={"Webhook-Delivery": "Disable"}),
            "The receiver answered with `webhook-delivery: disable`.",
        ),
    ],
    ids=["410", "header"],
)
def test_w08_a_receiver_that_wants_nothing_more_is_disabled_and_the_rest_is_parked(
    acme: Consumer, acme_api: Api, receiver: Receiver, pump: PumpRunner, reply: Reply, reason: str
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, max_in_flight=1)
    accept(acme, 3)
    receiver.answer = lambda received: reply

    pump.run()

    shown = acme_api.get(f"endpoints/{endpoint.public_id}/").json()
    assert (shown["status"], shown["disabled_reason"]) == ("disabled", reason)
    assert states(endpoint) == ["dead", "pending", "pending"]
    assert Delivery.objects.get(state="dead").dead_reason == "endpoint_disabled"
    assert len(receiver.received) == 1
    assert ("disabled", reason) in notices(endpoint)


def test_w08_abort_message_ends_one_delivery_and_leaves_the_endpoint_alone(
    acme: Consumer, receiver: Receiver, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url, max_in_flight=1)
    accept(acme, 2)
    replies = iter([Reply(status=500, headers={"webhook-delivery": "abort-message"}), Reply()])
    receiver.answer = lambda received: next(replies)

    pump.run()

    assert reloaded(endpoint).status == "active"
    assert sorted(Delivery.objects.values_list("state", "dead_reason")) == [
        ("dead", "aborted_by_receiver"),
        ("delivered", None),
    ]


def test_w08_a_disabled_endpoint_still_takes_events_and_sends_them_once_resumed(
    acme: Consumer, acme_api: Api, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    pump.run(transport=answering(410))
    accept(acme, 2)
    assert pump.run(transport=answering(200)) == 0

    shown = acme_api.post(f"endpoints/{endpoint.public_id}/resume/").json()

    assert (shown["status"], shown["disabled_reason"]) == ("active", None)
    assert pump.run(transport=answering(200)) == 2
    assert states(endpoint) == ["dead", "delivered", "delivered"]


# ── deletion ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_deleting_says_first_what_will_happen_to_the_backlog(acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 3)
    claim_for(endpoint, limit=1)
    before = ledger()

    answer = acme_api.delete(f"endpoints/{endpoint.public_id}/?dry_run=true")

    assert (answer.status_code, answer.json()["pending"]) == (200, 3)
    assert "endpoint_deleted" in answer.json()["detail"]
    assert ledger() == before


def test_deleting_buries_the_backlog_and_keeps_the_history_readable(
    producer: Api, acme: Consumer, acme_api: Api, pump: PumpRunner
) -> None:
    endpoint, other = new_endpoint(acme), new_endpoint(acme)
    accept(acme)
    pump.run(transport=answering(200))
    accept(acme, 2)

    assert acme_api.delete(f"endpoints/{endpoint.public_id}/").status_code == 204
    assert overdue.bury_orphans() == 2

    assert acme_api.get(f"endpoints/{endpoint.public_id}/").status_code == 404
    assert states(endpoint) == ["dead", "dead", "delivered"]
    assert set(Delivery.objects.filter(state="dead").values_list("dead_reason", flat=True)) == {"endpoint_deleted"}
    assert states(other) == ["delivered", "pending", "pending"]
    delivered = Delivery.objects.get(endpoint=endpoint, state="delivered")
    assert len(acme_api.get(f"deliveries/{delivered.public_id}/").json()["attempts"]) == 1
    assert overdue.bury_orphans() == 0


def test_a_deleted_endpoint_gets_no_new_deliveries(producer: Api, acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)
    acme_api.delete(f"endpoints/{endpoint.public_id}/")

    answer = producer.post("events/", {"consumer": "acme", "type": "invoice.paid", "data": {}})

    assert answer.json()["delivery_count"] == 0


def test_a_request_in_flight_when_its_endpoint_is_deleted_is_buried_after_it_has_failed(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    endpoints.delete(endpoint)
    assert overdue.bury_orphans() == 0

    settle_all(answered(claimed, 500))

    assert overdue.bury_orphans() == 1
    assert Delivery.objects.get().dead_reason == "endpoint_deleted"


def test_w15_a_deleted_ordered_endpoints_backlog_is_buried_whole(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 5, ordering_key="a")
    endpoints.delete(endpoint)

    assert overdue.bury_orphans() == 5

    assert Delivery.objects.filter(blocked=True).count() == 0


# ── order, on and off ────────────────────────────────────────────────────────────────────────────────────────────────


def sequences_sent(endpoint: Endpoint) -> list[list[int | None]]:
    """What goes out together, turn after turn."""
    turns = []
    while claimed := claim_for(endpoint).deliveries:
        turns.append(sorted(orjson.loads(delivery.body).get("sequence") for delivery in claimed))
        settle_all(*[answered(delivery) for delivery in claimed])
    return turns


def test_w15_turning_order_on_puts_the_backlog_in_order(acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 4, ordering_key="a")

    assert acme_api.patch(f"endpoints/{endpoint.public_id}/", {"ordered": True}).json()["ordered"] is True
    accept(acme, 1, ordering_key="a")

    assert sequences_sent(endpoint) == [[1], [2], [3], [4], [5]]


def test_w15_turning_order_off_lets_the_whole_backlog_go_at_once(acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 4, ordering_key="a")
    [head] = claim_for(endpoint).deliveries

    acme_api.patch(f"endpoints/{endpoint.public_id}/", {"ordered": False})
    accept(acme, 1, ordering_key="a")

    assert sequences_sent(endpoint) == [[2, 3, 4, 5]]
    assert settle_all(answered(head)).unblocked == set()


def test_w15_turning_order_off_and_on_again_with_a_head_in_flight_leaves_no_key_stuck(acme: Consumer) -> None:
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, 3, ordering_key="a")
    [head] = claim_for(endpoint).deliveries

    lifecycle.update(endpoint, {"ordered": False})
    lifecycle.update(endpoint, {"ordered": True})
    settle_all(answered(head, 500))

    assert sequences_sent(endpoint) == [[2], [3]]
    pass_time(seconds=61)
    assert sequences_sent(endpoint) == [[1]]


def test_w15_a_replayed_delivery_of_a_time_without_order_takes_its_place_in_order(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2, ordering_key="a")
    assert sequences_sent(endpoint) == [[1, 2]]
    lifecycle.update(endpoint, {"ordered": True})

    for delivery in Delivery.objects.order_by("event__sequence"):
        replay.replay_one(delivery)

    assert sequences_sent(endpoint) == [[1], [2]]


def test_w15_turning_order_off_while_an_event_is_being_accepted_leaves_nothing_blocked(acme: Consumer) -> None:
    """Regression: the event waited behind a head that no longer knew of its key, and nobody would have let it go."""
    endpoint = new_endpoint(acme, ordered=True)
    accept(acme, ordering_key="a")
    accepted = threading.Event()

    def produce() -> None:
        try:
            with transaction.atomic():
                new = NewEvent(consumer=acme.public_id, type="invoice.paid", data={}, ordering_key="a")
                ingest.accept([new], now=timezone.now())
                accepted.set()
                hold_until_somebody_waits()
        finally:
            connection.close()

    thread = threading.Thread(target=produce)
    thread.start()
    assert accepted.wait(10)
    lifecycle.update(endpoint, {"ordered": False})
    thread.join(10)

    assert list(Delivery.objects.filter(blocked=True)) == []
    assert sequences_sent(endpoint) == [[1, 2]]


# ── what goes on the wire ────────────────────────────────────────────────────────────────────────────────────────────


def test_s08_custom_headers_are_sent_and_shown_nowhere(
    producer: Api, acme: Consumer, acme_api: Api, pump: PumpRunner
) -> None:
    created = acme_api.post(
        "consumers/acme/endpoints/",
        {"url": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer tok-123", "X-Tenant": "acme-7"}},
    )
    assert created.status_code == 201, created.content
    endpoint = created.json()["id"]
    accept(acme)
    wire = Wire()

    pump.run(transport=wire)

    [request] = wire.requests
    assert (request.headers["authorization"], request.headers["x-tenant"]) == ("Bearer tok-123", "acme-7")
    assert created.json()["headers"] == ["Authorization", "X-Tenant"]
    [recorded] = Attempt.objects.values_list("request_headers", flat=True)
    assert ["Authorization", "[redacted]"] in recorded
    assert ["X-Tenant", "[redacted]"] in recorded
    everything = "".join(
        answer.content.decode()
        for answer in (
            created,
            acme_api.get(f"endpoints/{endpoint}/"),
            acme_api.get("consumers/acme/endpoints/"),
            acme_api.get(f"deliveries/{Delivery.objects.get().public_id}/"),
        )
    )
    assert "tok-123" not in everything
    assert "acme-7" not in everything


def test_s08_custom_headers_are_replaced_whole_and_taken_away_by_an_empty_object(
    acme: Consumer, acme_api: Api, pump: PumpRunner
) -> None:
    endpoint = new_endpoint(acme, headers={"X-One": "1", "X-Two": "2"})
    sent = []
    for headers in ({"X-Two": "22"}, {}):
        acme_api.patch(f"endpoints/{endpoint.public_id}/", {"headers": headers})
        accept(acme)
        wire = Wire()
        pump.run(transport=wire)
        sent.append({name: value for name, value in wire.requests[0].headers.items() if name.startswith("x-")})

    assert sent == [{"x-two": "22"}, {}]


def test_a_thin_payload_carries_everything_but_the_data_and_verifies(acme: Consumer, pump: PumpRunner) -> None:
    _, secret = endpoints.create(consumer=acme, url="https://receiver.test/", payload_mode="thin", ordered=True)
    [event] = accept(acme, ordering_key="a")
    wire = Wire()

    pump.run(transport=wire)

    [request] = wire.requests
    assert orjson.loads(request.content) == {
        "id": event.public_id,
        "type": "invoice.paid",
        "created_at": ingest.show_time(event.created_at),
        "timestamp": ingest.show_time(event.created_at),
        "api_version": "1",
        "ordering_key": "a",
        "sequence": 1,
    }
    assert verifies(request, secret)


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def verifies(request: httpx.Request, secret: str) -> bool:
    try:
        return bool(
            stripe.WebhookSignature.verify_header(
                request.content.decode(), request.headers["webhook-signature"], secret, tolerance=5
            )
        )
    except stripe.SignatureVerificationError:
        return False


def signatures(request: httpx.Request) -> list[str]:
    return [part for part in request.headers["webhook-signature"].split(",") if part.startswith("v1=")]


def only_with(secret: str, request: httpx.Request) -> str:
    """The one signature of this header that this secret made."""
    [mine] = [
        part
        for part in signatures(request)
        if stripe.WebhookSignature._compute_signature(  # type: ignore[no-untyped-call,unused-ignore]
            f"{request.headers['webhook-timestamp']}.{request.content.decode()}", secret
        )
        == part.removeprefix("v1=")
    ]
    return mine


def sent_by(pump: PumpRunner, consumer: Consumer) -> httpx.Request:
    accept(consumer)
    wire = Wire()
    pump.run(transport=wire)
    [request] = wire.requests
    return request


@pytest.fixture
def with_secret(acme: Consumer, acme_api: Api) -> tuple[str, str]:
    """An endpoint's path and its first secret."""
    created = acme_api.post("consumers/acme/endpoints/", {"url": "http://127.0.0.1:9/"}).json()
    return f"endpoints/{created['id']}", created["secret"]


def test_w06_after_a_rotation_both_secrets_sign_new_first(
    acme: Consumer, acme_api: Api, pump: PumpRunner, with_secret: tuple[str, str]
) -> None:
    path, old = with_secret

    rotated = acme_api.post(f"{path}/rotate-secret/", {"overlap_seconds": 3600}).json()
    request = sent_by(pump, acme)

    assert signatures(request) == [only_with(rotated["secret"], request), only_with(old, request)]
    assert verifies(request, rotated["secret"])
    assert verifies(request, old)
    assert rotated["previous_expires_at"] is not None


def test_w06_after_the_overlap_only_the_new_secret_signs(
    acme: Consumer, acme_api: Api, pump: PumpRunner, with_secret: tuple[str, str]
) -> None:
    path, old = with_secret
    new = acme_api.post(f"{path}/rotate-secret/", {"overlap_seconds": 3600}).json()["secret"]
    pass_time(seconds=3601)

    request = sent_by(pump, acme)

    assert signatures(request) == [only_with(new, request)]
    assert not verifies(request, old)


def test_w06_without_an_overlap_the_old_secret_is_retired_at_once(
    acme: Consumer, acme_api: Api, pump: PumpRunner, with_secret: tuple[str, str]
) -> None:
    path, old = with_secret
    new = acme_api.post(f"{path}/rotate-secret/", {"overlap_seconds": 0}).json()["secret"]

    request = sent_by(pump, acme)

    assert signatures(request) == [only_with(new, request)]
    assert not verifies(request, old)


def test_w06_rotating_again_by_force_retires_the_oldest_at_once(
    acme: Consumer, acme_api: Api, pump: PumpRunner, with_secret: tuple[str, str]
) -> None:
    path, first = with_secret
    second, third = (
        acme_api.post(f"{path}/rotate-secret/", {"overlap_seconds": 3600, "force": force}).json()["secret"]
        for force in (False, True)
    )

    request = sent_by(pump, acme)

    assert signatures(request) == [only_with(third, request), only_with(second, request)]
    assert not verifies(request, first)


def test_w06_the_overlap_is_a_day_unless_said_otherwise(acme_api: Api, with_secret: tuple[str, str]) -> None:
    path, _ = with_secret

    acme_api.post(f"{path}/rotate-secret/")

    expires_at = Endpoint.objects.get().previous_secret_expires_at
    assert expires_at is not None
    assert (expires_at - timezone.now()).total_seconds() == pytest.approx(86_400, abs=5)


@pytest.mark.parametrize("overlap", [-1, 604_801, "3600", None, 1.5])
def test_w06_an_overlap_beyond_a_week_or_of_another_kind_is_refused(
    acme_api: Api, with_secret: tuple[str, str], overlap: Any
) -> None:
    path, _ = with_secret
    before = ledger()

    answer = acme_api.post(f"{path}/rotate-secret/", {"overlap_seconds": overlap})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert ledger() == before


def test_s09_a_secret_is_in_the_answers_that_make_it_and_nowhere_else(
    producer: Api,
    operator: Api,
    acme: Consumer,
    acme_api: Api,
    pump: PumpRunner,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    created = acme_api.post(
        "consumers/acme/endpoints/", {"url": "http://127.0.0.1:9/", "headers": {"X-Token": "header-secret"}}
    ).json()
    path = f"endpoints/{created['id']}"
    rotated = acme_api.post(f"{path}/rotate-secret/").json()
    secrets = [created["secret"], rotated["secret"], "header-secret"]
    accept(acme)
    pump.run(transport=answering(500))
    delivery = Delivery.objects.get()

    shown = [
        api.get(where).content.decode()
        for api in (producer, operator, acme_api)
        for where in (
            f"{path}/",
            "consumers/acme/endpoints/",
            f"{path}/deliveries/",
            f"deliveries/{delivery.public_id}/",
            "events/",
        )
    ]
    shown += [acme_api.patch(f"{path}/", {"description": "x"}).content.decode()]
    shown += [acme_api.post(f"{path}/{action}/").content.decode() for action in ("pause", "resume", "test")]
    endpoint = Endpoint.objects.get()
    rows = [repr(list(model.objects.values())) for model in (Attempt, Endpoint, Notice)]
    reprs = [repr(endpoint), str(endpoint), repr(claim_for(endpoint)), repr(vars(endpoint))]

    for text in [*shown, *rows, *reprs, caplog.text, *(repr(vars(record)) for record in caplog.records)]:
        assert not any(secret in text or secret.removeprefix("whsec_") in text for secret in secrets)


# ── a signed test event ──────────────────────────────────────────────────────────────────────────────────────────────

# Who sent it is written down, and nothing else is.
# A test leaves its entry in the audit log and its line in the log of tests, and nothing else.
TRACES = {"subscriptions_auditentry", "deliveries_senttest"}


def test_a_test_event_is_signed_sent_now_and_answered_for(acme: Consumer, acme_api: Api, receiver: Receiver) -> None:
    receiver.answer = lambda received: Reply(status=202, body=b"thanks", headers={"X-Seen": "yes"})
    endpoint, secret = endpoints.create(consumer=acme, url=receiver.url, headers={"X-Token": "header-secret"})
    before = ledger(but=TRACES)

    answer = acme_api.post(f"endpoints/{endpoint.public_id}/test/")

    [received] = receiver.received
    shown = answer.json()
    assert (answer.status_code, shown["success"], shown["status_code"]) == (200, True, 202)
    assert (shown["response_body"], shown["error_kind"], shown["url"]) == ("thanks", None, receiver.url)
    assert ["X-Seen", "yes"] in shown["response_headers"]
    assert shown["request_body"].encode() == received.body
    assert orjson.loads(received.body)["type"] == "webhook.test"
    assert received.headers["Webhook-Id"] == shown["event"] == orjson.loads(received.body)["id"]
    assert received.headers["X-Token"] == "header-secret"
    assert ["X-Token", "[redacted]"] in shown["request_headers"]
    assert stripe.WebhookSignature.verify_header(
        received.body.decode(), received.headers["Webhook-Signature"], secret, tolerance=5
    )
    assert ledger(but=TRACES) == before


def test_a_test_during_a_rotation_is_signed_with_both_secrets(
    acme: Consumer, acme_api: Api, receiver: Receiver
) -> None:
    endpoint, old = endpoints.create(consumer=acme, url=receiver.url)
    new = endpoints.rotate_secret(endpoint, overlap_seconds=60).secret

    acme_api.post(f"endpoints/{endpoint.public_id}/test/")

    [received] = receiver.received
    for secret in (old, new):
        assert stripe.WebhookSignature.verify_header(
            received.body.decode(), received.headers["Webhook-Signature"], secret, tolerance=5
        )


def test_a_test_of_a_failing_receiver_says_so_and_leaves_the_endpoints_health_alone(
    acme: Consumer, acme_api: Api, receiver: Receiver
) -> None:
    receiver.answer = lambda received: Reply(status=503, headers={"Retry-After": "3600"})
    endpoint = new_endpoint(acme, url=receiver.url)
    before = ledger(but=TRACES)

    shown = acme_api.post(f"endpoints/{endpoint.public_id}/test/").json()

    assert (shown["success"], shown["status_code"]) == (False, 503)
    assert ledger(but=TRACES) == before


def test_a_paused_endpoint_may_be_tested(acme: Consumer, acme_api: Api, receiver: Receiver) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    endpoints.pause(endpoint)

    assert acme_api.post(f"endpoints/{endpoint.public_id}/test/").json()["success"] is True


def test_s06_a_test_of_a_private_address_is_refused_at_the_dial_and_nothing_is_sent(
    acme: Consumer, acme_api: Api, receiver: Receiver, settings: Settings
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url.replace("http:", "https:"))
    settings.DELIVERY_ALLOWED_NETWORKS = []
    settings.DELIVERY_ALLOWED_PORTS = list(range(1, 65_536))

    shown = acme_api.post(f"endpoints/{endpoint.public_id}/test/").json()

    assert (shown["success"], shown["status_code"], shown["error_kind"]) == (False, None, "refused_address")
    assert "127.0.0.1" not in shown["error_detail"]
    assert receiver.received == []


def test_s06_a_delivery_to_a_private_address_is_dead_at_once_and_nothing_is_sent(
    acme: Consumer, receiver: Receiver, pump: PumpRunner, settings: Settings
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url.replace("http:", "https:"))
    accept(acme)
    settings.DELIVERY_ALLOWED_NETWORKS = []
    settings.DELIVERY_ALLOWED_PORTS = list(range(1, 65_536))

    pump.run()

    assert Delivery.objects.values_list("state", "dead_reason", "attempt_count").get() == ("dead", "refused_address", 1)
    attempt = Attempt.objects.get()
    assert (attempt.error_kind, attempt.address) == ("refused_address", None)
    assert "127.0.0.1" not in (attempt.error_detail or "")
    assert Lane.objects.get(endpoint=endpoint).failure_count == 0
    assert receiver.received == []


def test_s06_a_private_address_is_refused_on_create_and_update(
    acme: Consumer, acme_api: Api, settings: Settings
) -> None:
    endpoint = new_endpoint(acme)
    settings.DELIVERY_ALLOWED_NETWORKS = []
    before = ledger()

    answers = [
        acme_api.post("consumers/acme/endpoints/", {"url": "https://10.0.0.1/"}),
        acme_api.patch(f"endpoints/{endpoint.public_id}/", {"url": "https://127.0.0.1/"}),
    ]

    assert [(answer.status_code, answer.json()["errors"][0]["pointer"]) for answer in answers] == [(400, "/url")] * 2
    assert ledger() == before
