"""The receiver: what it answers, in which order things happen, and in each framework."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from webhooks_client.receive import (
    DbApiStore,
    Event,
    Inbox,
    Receiver,
    SequenceGuard,
    key_of_object,
    key_of_payload,
    missing_from,
    sign,
    to_celery,
    to_rq,
)

from tests.platform import Platform
from tests.receive import stores
from tests.receive.stores import Stand

NOW = 1_700_000_000
SECRET = "whsec_c2VjcmV0"


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return stores.dbapi(tmp_path / "receiver.sqlite3")


def request(event_id: str = "evt_1", **fields: Any) -> tuple[bytes, dict[str, str]]:
    body = json.dumps({"id": event_id, "type": "order.placed", "data": {"order": 7}, **fields}).encode()
    return body, sign(body, secret=SECRET, event_id=event_id, timestamp=NOW)


def receiver(stand: Stand, **options: Any) -> Receiver:
    return Receiver(SECRET, **{"store": stand.store, "work": stand.work, "now": lambda: NOW, **options})


def test_new_and_duplicate_are_both_answered_200(stand: Stand) -> None:
    made = receiver(stand)
    answers = [made.receive(*request()), made.receive(*request())]
    assert [(answer.status, answer.body) for answer in answers] == [
        (200, b'{"status": "new"}'),
        (200, b'{"status": "duplicate"}'),
    ]
    assert stand.effects() == ["evt_1"]


def test_what_does_not_verify_is_401_and_leaves_nothing(stand: Stand) -> None:
    body, headers = request()
    made = receiver(stand)
    assert made.receive(body + b" ", headers).status == 401
    assert made.receive(body, {}).status == 401
    assert (stand.effects(), stand.store.seen("evt_1"), made.counters.snapshot()["rejected"]) == ([], False, 2)


def test_a_wrong_signature_is_explained_in_the_log_but_not_for_every_stranger(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    body, headers = request()
    made = receiver(stand)
    for _ in range(3):
        made.receive(b" " + body, headers)
    explained = ["white space around it" in record.getMessage() for record in caplog.records]
    assert explained == [True, False, False]


def test_a_signed_body_that_is_no_event_is_400_and_a_large_one_413(stand: Stand) -> None:
    headers = sign(b"[]", secret=SECRET, event_id="evt_1", timestamp=NOW)
    assert receiver(stand).receive(b"[]", headers).status == 400
    assert receiver(stand, max_body_bytes=5).receive(*request()).status == 413


def test_work_that_fails_is_500_and_the_next_try_does_it(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    failing = [True]

    def work(event: Event, transaction: Any) -> None:
        stand.work(event, transaction)
        if failing[0]:
            raise RuntimeError("no stock")

    made = receiver(stand, work=work)
    assert made.receive(*request()).status == 500
    assert stand.effects() == []
    failing[0] = False
    assert made.receive(*request()).status == 200
    assert stand.effects() == ["evt_1"]
    assert made.counters.snapshot()["failed"] == 1


def test_secrets_may_come_from_a_function(stand: Stand) -> None:
    secrets = ["whsec_b3RoZXI="]
    made = Receiver(lambda: secrets, store=stand.store, work=stand.work, now=lambda: NOW)
    assert made.receive(*request()).status == 401
    secrets.append(SECRET)
    assert made.receive(*request()).status == 200


def test_the_counters_speak_to_prometheus(stand: Stand) -> None:
    made = receiver(stand)
    made.receive(*request())
    text = made.counters.prometheus()
    assert 'webhooks_receiver_events_total{outcome="new"} 1\n' in text
    assert 'webhooks_receiver_seconds_bucket{le="+Inf"} 1\n' in text
    assert "webhooks_receiver_seconds_count 1\n" in text


# ── keys of one's own ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_of_type_and_object_knows_a_change_again_under_a_new_id(stand: Stand) -> None:
    made = receiver(stand, key=key_of_object)
    for event_id in ("evt_1", "evt_2"):
        made.receive(*request(event_id, data={"id": "ord_7"}))
    assert stand.effects() == ["evt_1"]
    with pytest.raises(ValueError, match="no `id`"):
        key_of_object(Event(id="evt_3", type="a", data={}))


def test_a_key_of_the_payload_is_the_same_for_the_same_content_only() -> None:
    key = key_of_payload("d-1", {"a": 1, "b": [2]}, secret="s")
    assert len(key) == 64
    assert key_of_payload("d-1", {"b": [2], "a": 1}, secret="s") == key
    others = [("d-1", {"a": 2, "b": [2]}, "s"), ("d-2", {"a": 1, "b": [2]}, "s"), ("d-1", {"a": 1, "b": [2]}, "t")]
    assert key not in [key_of_payload(sender, payload, secret=secret) for sender, payload, secret in others]


# ── hand over ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_inbox_answers_before_the_work_and_works_each_event_off_once(stand: Stand) -> None:
    inbox = Inbox(stand.store)
    inbox.create_table()
    made = receiver(stand, hand_over=inbox.keep)
    assert [made.receive(*request(each)).status for each in ("evt_1", "evt_1", "evt_2")] == [200, 200, 200]
    assert (stand.effects(), inbox.backlog()) == ([], 2)
    assert inbox.work_off(stand.work) == 2
    assert (stand.effects(), inbox.backlog(), inbox.work_off(stand.work)) == (["evt_1", "evt_2"], 0, 0)


def test_an_event_of_the_inbox_that_fails_comes_again_later_and_holds_nobody_up(stand: Stand) -> None:
    now = [1000.0]
    inbox = Inbox(stand.store, clock=lambda: now[0])
    inbox.create_table()

    def fails_for_the_first(event: Event, transaction: Any) -> None:
        stand.work(event, transaction)
        if event.id == "evt_1":
            raise RuntimeError("not yet")

    for each in ("evt_1", "evt_2"):
        inbox.keep(Event.of({"id": each, "type": "a", "data": {}}))
    assert inbox.work_off(fails_for_the_first) == 1
    assert (stand.effects(), inbox.backlog()) == (["evt_2"], 1)
    assert inbox.work_off(stand.work) == 0
    now[0] += 2
    assert inbox.work_off(stand.work) == 1
    assert stand.effects() == ["evt_2", "evt_1"]
    now[0] += 100
    assert inbox.forget(older_than_seconds=50) == 2


def test_an_event_that_failed_here_and_was_done_elsewhere_meanwhile_stays_done(stand: Stand) -> None:
    now = [1000.0]
    inbox = Inbox(stand.store, clock=lambda: now[0])
    inbox.create_table()
    inbox.keep(Event.of({"id": "evt_1", "type": "a", "data": {}}))

    class Elsewhere(DbApiStore):
        """Between the rollback and the note of the failure, another worker takes the event."""

        ended = 0

        @contextmanager
        def transaction(self) -> Iterator[Any]:
            if self.ended == 1:
                self.ended += 1
                assert inbox.work_off(stand.work) == 1
            try:
                with super().transaction() as connection:
                    yield connection
            finally:
                self.ended += 1

    def fails(event: Event, transaction: Any) -> None:
        raise RuntimeError

    slow = Inbox(Elsewhere(stand.store._connect), clock=lambda: now[0])
    slow.work_off(fails, limit=1)
    now[0] += 100
    assert inbox.work_off(stand.work) == 0
    assert stand.effects() == ["evt_1"]


def test_an_inbox_knows_events_by_the_receivers_key(stand: Stand) -> None:
    inbox = Inbox(stand.store, key=key_of_object)
    inbox.create_table()
    for each in ("evt_1", "evt_2"):
        inbox.keep(Event.of({"id": each, "type": "a", "data": {"id": "inv_1"}}))
    assert inbox.backlog() == 1


def test_an_id_as_long_as_it_may_be_fits_into_the_inbox(stand: Stand) -> None:
    inbox = Inbox(stand.store)
    inbox.create_table()
    for each in ("a" * 255, "a" * 255, "a" * 254 + "b"):
        inbox.keep(Event.of({"id": each, "type": "a", "data": {}}))
    with stand.store.transaction() as connection:
        longest = stand.store.execute(connection, "SELECT max(length(key)) FROM {prefix}_receipts").fetchone()[0]
    assert (inbox.backlog(), longest) == (2, 77)


def test_of_too_many_missing_events_the_oldest_come_first() -> None:
    def page(request: httpx.Request) -> httpx.Response:
        first = int(request.url.params.get("cursor", 1500))
        numbers = range(first, max(0, first - 500), -1)
        shown = [{"id": f"e{each}", "type": "a", "data": {}, "ordering_key": "k", "sequence": each} for each in numbers]
        following = f"http://x/?cursor={first - 500}" if first > 500 else None
        return httpx.Response(200, json={"results": shown, "next": following})

    with Platform([page]).client() as client:
        found = list(missing_from(client, "acme")("k", 100, 1500))
    assert [found[0].sequence, found[-1].sequence, len(found)] == [101, 1100, 1000]


def test_celery_and_rq_get_the_payload_and_process_it_once(stand: Stand) -> None:
    made = receiver(stand)
    queued: list[tuple[Any, ...]] = []

    class Task:
        def apply_async(self, *, args: list[Any], queue: str) -> None:
            queued.append((args[0], queue))

    class Queue:
        def enqueue(self, function: Callable[..., object], payload: Any, *, retry: int) -> None:
            queued.append((payload, retry))
            function(payload)

    assert receiver(stand, hand_over=to_celery(Task(), queue="slow")).receive(*request()).status == 200
    take = to_rq(Queue(), lambda payload: made.process_once(Event.of(payload)), retry=3)
    assert receiver(stand, hand_over=take).receive(*request()).status == 200
    payload = {"id": "evt_1", "type": "order.placed", "data": {"order": 7}}
    assert queued == [(payload, "slow"), (payload, 3)]
    assert stand.effects() == ["evt_1"]


def test_a_queue_that_takes_nothing_is_a_failure_that_the_sender_sees(stand: Stand) -> None:
    def full(_: Event) -> None:
        raise ConnectionError("broker")

    assert receiver(stand, hand_over=full).receive(*request()).status == 500


# ── sequence ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_sequence(number: int) -> tuple[bytes, dict[str, str]]:
    return request(f"evt_{number}", ordering_key="order-7", sequence=number)


def test_an_event_older_than_what_was_applied_is_ignored(stand: Stand) -> None:
    made = receiver(stand, guard=SequenceGuard(stand.store, on_gap="skip"))
    outcomes = [json.loads(made.receive(*in_sequence(number)).body)["status"] for number in (1, 3, 2, 4)]
    assert outcomes == ["new", "new", "stale", "new"]
    assert stand.effects() == ["evt_1", "evt_3", "evt_4"]


def test_an_event_beyond_a_gap_is_sent_back_until_the_gap_is_closed(stand: Stand) -> None:
    made = receiver(stand, guard=SequenceGuard(stand.store))
    first = made.receive(*in_sequence(2))
    assert (first.status, first.headers["retry-after"]) == (503, "5")
    assert [made.receive(*in_sequence(number)).status for number in (1, 2)] == [200, 200]
    assert stand.effects() == ["evt_1", "evt_2"]


def test_what_is_missing_is_fetched_and_applied_first(stand: Stand) -> None:
    def listed(number: int) -> dict[str, Any]:
        key = {"ordering_key": "order-7", "sequence": number}
        return {"id": f"evt_{number}", "type": "order.placed", "data": {}, "occurred_at": None, **key}

    answer = {"results": [listed(number) for number in (4, 3, 2, 1)], "next": None}
    platform = Platform([httpx.Response(200, json=answer)])
    guard = SequenceGuard(stand.store, fetch=missing_from(platform.client(), "acme"))
    made = receiver(stand, guard=guard)
    assert [made.receive(*in_sequence(number)).status for number in (1, 4, 3, 2)] == [200] * 4
    assert stand.effects() == ["evt_1", "evt_2", "evt_3", "evt_4"]
    assert len(platform.requests) == 1
    assert dict(platform.requests[0].url.params)["ordering_key"] == "order-7"


def test_a_key_may_begin_at_what_arrives_first(stand: Stand) -> None:
    guard = SequenceGuard(stand.store, start="arrival")
    made = receiver(stand, guard=guard)

    def arrives(sequence: int) -> int:
        return made.receive(*request(f"evt_{sequence}", ordering_key="k", sequence=sequence)).status

    assert [arrives(57), arrives(59), arrives(56), arrives(58), arrives(59)] == [200, 503, 200, 200, 200]
    assert stand.effects() == ["evt_57", "evt_58", "evt_59"]


def test_events_without_a_sequence_pass_the_guard(stand: Stand) -> None:
    assert receiver(stand, guard=SequenceGuard(stand.store)).receive(*request()).status == 200


# ── frameworks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flask_in_one_line(stand: Stand) -> None:
    flask = pytest.importorskip("flask")
    from webhooks_client.receive.adapters import flask_view

    app = flask.Flask("shop")
    app.add_url_rule("/webhooks", view_func=flask_view(receiver(stand)), methods=["POST"])
    body, headers = request()
    client = app.test_client()
    answers = [client.post("/webhooks", data=body, headers=headers) for _ in range(2)]
    assert [(answer.status_code, answer.json) for answer in answers] == [
        (200, {"status": "new"}),
        (200, {"status": "duplicate"}),
    ]
    assert client.post("/webhooks", data=body).status_code == 401
    assert stand.effects() == ["evt_1"]


def test_flask_reads_no_more_of_a_body_in_chunks_than_it_may(stand: Stand) -> None:
    flask = pytest.importorskip("flask")
    from webhooks_client.receive.adapters import flask_view

    class Endless(BytesIO):
        given = 0

        def read(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert 0 <= size < 10_000
            self.given += size
            return b"x" * size

        def readinto(self, buffer: Any) -> int:
            buffer[:] = self.read(len(buffer))
            return len(buffer)

    app = flask.Flask("shop")
    made = receiver(stand, max_body_bytes=200)
    app.add_url_rule("/webhooks", view_func=flask_view(made), methods=["POST"])
    body = Endless()
    chunked = {"wsgi.input_terminated": True, "wsgi.input": body, "CONTENT_LENGTH": ""}
    assert app.test_client().post("/webhooks", environ_overrides=chunked).status_code == 413
    assert body.given < 10_000


def test_fastapi_in_one_line(stand: Stand) -> None:
    fastapi = pytest.importorskip("fastapi")
    from webhooks_client.receive.adapters import starlette_endpoint

    app = fastapi.FastAPI()
    app.add_route("/webhooks", starlette_endpoint(receiver(stand, max_body_bytes=200)), methods=["POST"])
    body, headers = request()

    async def send(**given: Any) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            return (await client.post("/webhooks", **given)).status_code

    assert asyncio.run(send(content=body, headers=headers)) == 200
    assert asyncio.run(send(content=body)) == 401
    assert asyncio.run(send(content=b"x" * 201)) == 413
    assert stand.effects() == ["evt_1"]
