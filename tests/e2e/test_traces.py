"""One trace from the producer through request, accept, claim and attempt to the receiver, collected over OTLP."""

from collections.abc import Iterator
from typing import Any

import pytest

from subscriptions import endpoints, keys
from subscriptions.models import Consumer, Role
from tests.otlp import Collector, Seen, running_collector
from tests.receiver import Receiver, Reply
from tests.stack import Stack, StartStack

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

TRACE, PRODUCER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PRODUCER}-01", f"00-{TRACE}-{PRODUCER}-00"
EVENT: dict[str, Any] = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}
SERVER, PRODUCING, CLIENT, CONSUMING = 2, 4, 3, 5


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


def traced(start_stack: StartStack, collector: Collector, *names: str) -> Stack:
    # Spans go out at once, so that nobody waits for them.
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    return start_stack("web", *names, **settings)


def received_parent(receiver: Receiver, number: int) -> str:
    version, trace_id, span_id, flags = receiver.wait_for(number)[number - 1].headers["traceparent"].split("-")
    assert (version, trace_id, flags) == ("00", TRACE, "01")
    return str(span_id)


def one(spans: list[Seen], parent_id: str) -> Seen:
    [found] = [span for span in spans if span.parent_id == parent_id]
    return found


def test_a_trace_goes_from_the_producer_to_the_receiver_whichever_way_the_emit_is_answered(
    acme: Consumer, receiver: Receiver, collector: Collector, start_stack: StartStack
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    stack = traced(start_stack, collector, "deliveries1")
    client = stack.client(keys.issue(role=Role.PRODUCER)[1])
    # The first goes through Django, since nobody knows its key yet; the second is answered before Django.
    for number in (1, 2):
        headers = {"traceparent": SAMPLED, "X-Request-Id": f"request-{number}"}
        answer = client.post("events/", json=EVENT, headers=headers)
        assert (answer.status_code, answer.headers["X-Request-Id"]) == (202, f"request-{number}")
        attempt_id = received_parent(receiver, number)

        requests = collector.wait_for("POST /api/v1/events", number)
        [request] = [span for span in requests if span.attributes["webhooks.request_id"] == f"request-{number}"]
        accept = one(collector.wait_for("accept", number), request.span_id)
        attempt = one(collector.wait_for("attempt", number), accept.span_id)
        claim = one(collector.wait_for("claim", number), accept.span_id)
        assert (request.parent_id, attempt.span_id) == (PRODUCER, attempt_id)
        assert {span.trace_id for span in (request, accept, claim, attempt)} == {TRACE}
        assert [span.kind for span in (request, accept, claim, attempt)] == [SERVER, PRODUCING, CONSUMING, CLIENT]
        assert attempt.links == (claim.span_id,)
        assert request.starts <= accept.starts <= accept.ends <= attempt.starts <= attempt.ends
        assert request.attributes["http.response.status_code"] == 202
        shown = {name: attempt.attributes[f"webhooks.{name}"] for name in ("event", "attempt", "verdict", "event_type")}
        assert shown == {
            "event": answer.json()["id"], "attempt": 1, "verdict": "Delivered", "event_type": "invoice.paid",
        }  # fmt: skip
    assert {span.service for span in collector.spans()} == {"webhooks-platform"}
    assert len(collector.spans("attempt")) == 2


def test_a_claim_of_many_is_linked_with_each_of_them(
    acme: Consumer, receiver: Receiver, collector: Collector, start_stack: StartStack
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    stack = traced(start_stack, collector)
    client = stack.client(keys.issue(role=Role.PRODUCER)[1])
    client.post("events/batch/", json={"events": [EVENT, EVENT]}, headers={"traceparent": SAMPLED})
    client.post("events/", json=EVENT, headers={"traceparent": SAMPLED})
    # Only now: so one claim gets all three.
    stack.start_more("deliveries1")
    sent = {received_parent(receiver, number) for number in (1, 2, 3)}

    attempts = collector.wait_for("attempt", 3)
    [claim] = collector.wait_for("claim")
    accepts = {span.span_id for span in collector.wait_for("accept", 2)}
    assert {span.span_id for span in attempts} == sent
    assert {span.parent_id for span in attempts} == accepts
    assert (claim.parent_id, claim.trace_id == TRACE, len(claim.links), set(claim.links)) == ("", False, 3, accepts)
    assert [span.links for span in attempts] == [(claim.span_id,)] * 3


def test_each_retry_is_a_span_of_its_own_and_a_failed_one_is_an_error(
    acme: Consumer, receiver: Receiver, collector: Collector, start_stack: StartStack
) -> None:
    receiver.answer = lambda received: Reply(500 if received.headers["webhook-attempt"] == "1" else 200)
    endpoints.create(consumer=acme, url=f"{receiver.url}?token=secret", retry_schedule=[0, 0])
    stack = traced(start_stack, collector, "deliveries1")
    client = stack.client(keys.issue(role=Role.PRODUCER)[1])
    client.post("events/", json=EVENT, headers={"traceparent": SAMPLED})
    sent = [received_parent(receiver, number) for number in (1, 2)]

    first, second = sorted(collector.wait_for("attempt", 2), key=lambda span: span.starts)
    assert [first.span_id, second.span_id] == sent
    assert first.parent_id == second.parent_id == collector.spans("accept")[0].span_id
    assert (first.is_error, first.attributes["error.type"], first.attributes["webhooks.verdict"]) == (
        True, "http_500", "RetryAt",
    )  # fmt: skip
    assert (second.is_error, second.attributes["webhooks.attempt"]) == (False, 2)
    assert "secret" not in repr(collector.spans())


def test_without_a_traceparent_the_request_begins_a_trace(
    acme: Consumer, receiver: Receiver, collector: Collector, start_stack: StartStack
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    stack = traced(start_stack, collector, "deliveries1")
    stack.client(keys.issue(role=Role.PRODUCER)[1]).post("events/", json=EVENT)

    [attempt] = collector.wait_for("attempt")
    [request] = collector.wait_for("POST /api/v1/events")
    assert request.parent_id == ""
    # Sampled, and random: OpenTelemetry says so of the ids it makes.
    assert receiver.received[0].headers["traceparent"] == f"00-{request.trace_id}-{attempt.span_id}-03"


def test_what_is_not_sampled_goes_on_to_the_receiver_unchanged_and_leaves_no_span(
    acme: Consumer, receiver: Receiver, collector: Collector, start_stack: StartStack
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    stack = traced(start_stack, collector, "deliveries1")
    client = stack.client(keys.issue(role=Role.PRODUCER)[1])
    client.post("events/", json=EVENT, headers={"traceparent": NOT_SAMPLED})
    assert receiver.wait_for(1)[0].headers["traceparent"] == NOT_SAMPLED
    # What is told to stop sends all that it still has.
    for name in ("web", "deliveries1"):
        stack.terminate(name)
        stack.wait_ended(name, seconds=60)

    assert collector.spans() == []


def test_spans_that_wait_are_sent_when_the_processes_are_told_to_stop(
    acme: Consumer, receiver: Receiver, collector: Collector, start_stack: StartStack
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "3600000"}
    stack = start_stack("web", "deliveries1", **settings)
    stack.client(keys.issue(role=Role.PRODUCER)[1]).post("events/", json=EVENT)
    receiver.wait_for(1)
    for name in ("web", "deliveries1"):
        stack.terminate(name)
        stack.wait_ended(name, seconds=60)

    assert {span.name for span in collector.spans()} == {"POST /api/v1/events", "accept", "claim", "attempt"}


def test_a_collector_that_is_away_holds_nothing_up(acme: Consumer, receiver: Receiver, start_stack: StartStack) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    stack = start_stack("web", "deliveries1", **settings)
    client = stack.client(keys.issue(role=Role.PRODUCER)[1])
    for _ in range(20):
        assert client.post("events/", json=EVENT).status_code == 202

    receiver.wait_for(20)
