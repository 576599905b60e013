"""Emitting over real HTTP to real processes: in parallel, while the web server is killed, while Redis is away, after
PostgreSQL was."""

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import psycopg
import pytest

from deliveries.models import Delivery, Event, OrderingKey
from subscriptions import endpoints, keys
from subscriptions.models import ApiKey, Consumer, IdempotencyRecord, Role
from tests.local import wait_until
from tests.receiver import Receiver
from tests.stack import OwnPostgres, Stack, StartStack, manage
from webhooks_platform.local.server import RunningServer

EVENT: dict[str, Any] = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}


def new_key() -> str:
    return keys.issue(role=Role.PRODUCER)[1]


# ── One key, two hundred callers ─────────────────────────────────────────────────────────────────────────────────────

CALLERS = 200


def test_two_hundred_parallel_requests_with_one_key_make_one_event(start_stack: StartStack, acme: Consumer) -> None:
    stack = start_stack("web")
    for number in range(3):
        endpoints.create(consumer=acme, url=f"http://127.0.0.1:9/{number}")
    client = stack.client(new_key(), seconds=60)
    body = {**EVENT, "ordering_key": "invoice-17"}
    barrier = threading.Barrier(CALLERS)

    def call(_: int) -> httpx.Response:
        barrier.wait(30)
        return client.post("events/", json=body, headers={"Idempotency-Key": "order-17"})

    with ThreadPoolExecutor(max_workers=CALLERS) as pool:
        answers = list(pool.map(call, range(CALLERS)))

    event = Event.objects.get()
    accepted = [answer for answer in answers if answer.status_code == 202]
    told_to_wait = [answer for answer in answers if answer.status_code == 409]
    assert len(accepted) + len(told_to_wait) == CALLERS
    assert {answer.content for answer in accepted} == {accepted[0].content}
    assert accepted[0].json()["id"] == event.public_id
    assert sum("Idempotent-Replayed" not in answer.headers for answer in accepted) == 1
    assert {answer.json()["code"] for answer in told_to_wait} <= {"idempotency_in_progress"}
    assert (Delivery.objects.count(), event.delivery_count, IdempotencyRecord.objects.count()) == (3, 3, 1)
    assert (event.sequence, OrderingKey.objects.get().last_sequence) == (1, 1)


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────────────────────────

EVENTS, PRODUCERS, KILLS = 400, 8, 2


class Producers:
    """Threads that emit numbered events, and send what was not answered again with its key once the server is back."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._server_is_up = threading.Event()
        self._server_is_up.set()
        self.answered: dict[int, str] = {}
        self.unanswered: set[int] = set()

    def emit(self, number: int) -> None:
        body = {**EVENT, "data": {"number": number}}
        while number not in self.answered:
            assert self._server_is_up.wait(30)
            try:
                answer = self._client.post("events/", json=body, headers={"Idempotency-Key": f"key-{number}"})
            except httpx.TransportError:
                self.unanswered.add(number)
                continue
            assert answer.status_code == 202, answer.text
            self.answered[number] = answer.json()["id"]

    def kill_while_they_emit(self, stack: Stack) -> None:
        """Everybody goes on once the server is ready again."""
        seen = len(self.answered)
        wait_until(lambda: len(self.answered) > seen + 50)
        stack.kill("web")
        self._server_is_up.clear()
        try:
            stack.restart("web")
            stack.wait_ready()
        finally:
            self._server_is_up.set()


def test_kill_9_of_the_web_server_loses_no_answered_event_and_doubles_no_retried_one(
    start_stack: StartStack, acme: Consumer
) -> None:
    stack = start_stack("web")
    endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    producers = Producers(stack.client(new_key()))

    with ThreadPoolExecutor(max_workers=PRODUCERS) as pool:
        emitting = [pool.submit(producers.emit, number) for number in range(EVENTS)]
        for _ in range(KILLS):
            producers.kill_while_they_emit(stack)
    for future in emitting:
        future.result()

    stored = {event.public_id: orjson.loads(event.body or b"")["data"]["number"] for event in Event.objects.all()}
    assert producers.unanswered, "no request was under way at any kill"
    assert stored == {event_id: number for number, event_id in producers.answered.items()}
    assert sorted(stored.values()) == list(range(EVENTS))
    assert (Delivery.objects.count(), IdempotencyRecord.objects.count()) == (EVENTS, EVENTS)


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def stop(valkey: RunningServer) -> Callable[[], None]:
    valkey.stop()
    return valkey.start


def hang(valkey: RunningServer) -> Callable[[], None]:
    """Worse than stopped: connections are taken, and nothing is answered."""
    os.kill(valkey.pid, signal.SIGSTOP)
    return lambda: os.kill(valkey.pid, signal.SIGCONT)


@pytest.mark.parametrize("take_away", [stop, hang])
def test_with_redis_away_emits_are_answered_in_time_and_delivered_later(
    take_away: Callable[[RunningServer], Callable[[], None]],
    own_valkey: RunningServer,
    start_stack: StartStack,
    acme: Consumer,
    receiver: Receiver,
) -> None:
    programs = ("web", "deliveries1", "background", "beat")
    stack = start_stack(*programs, REDIS_URL=own_valkey.url, DELIVERY_SWEEP_SECONDS="0.3")
    endpoints.create(consumer=acme, url=receiver.url)
    client = stack.client(new_key())
    first = client.post("events/", json=EVENT).json()["id"]
    receiver.wait_for(1)

    bring_back = take_away(own_valkey)
    try:
        answers = [timed_emit(client, number) for number in range(100)]
    finally:
        bring_back()

    assert Counter(answer.status_code for answer, _ in answers) == {202: 100}
    assert max(seconds for _, seconds in answers) < 1
    # Each was sent twice with its key; Redis is not what makes that safe.
    events = {answer.json()["id"] for answer, _ in answers} | {first}
    assert (Event.objects.count(), len(events)) == (51, 51)
    wait_until(lambda: Delivery.objects.filter(state="delivered").count() == 51, seconds=30)
    assert {received.headers["Webhook-Id"] for received in receiver.received} == events


def timed_emit(client: httpx.Client, number: int) -> tuple[httpx.Response, float]:
    started_at = time.monotonic()
    answer = client.post("events/", json=EVENT, headers={"Idempotency-Key": f"key-{number // 2}"})
    return answer, time.monotonic() - started_at


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_restart_of_postgres_costs_nobody_who_emits_after_it_an_answer(
    own_postgres: OwnPostgres, start_stack: StartStack
) -> None:
    """Each thread of the web server has a connection, and all of them are dead; also without a farewell."""
    key = manage("issue_key", "--role", "producer", DATABASE_URL=own_postgres.url)
    client = start_stack("web", DATABASE_URL=own_postgres.url).client(key)
    assert client.post("consumers/", json={"uid": "acme"}).status_code == 201

    def emit(_: int) -> int:
        return client.post("events/", json=EVENT).status_code

    statuses: Counter[int] = Counter()
    with ThreadPoolExecutor(max_workers=40) as pool:
        statuses.update(pool.map(emit, range(100)))
        for end in (own_postgres.server.stop, own_postgres.server.kill):
            end()
            own_postgres.server.start()
            statuses.update(pool.map(emit, range(100)))

    assert statuses == {202: 300}
    with psycopg.connect(own_postgres.url) as connection:
        assert connection.execute("SELECT count(*) FROM deliveries_event").fetchall() == [(300,)]


# ── What only a real server can get ──────────────────────────────────────────────────────────────────────────────────


def test_b_a_body_without_a_length_or_far_too_long_is_refused(start_stack: StartStack, acme: Consumer) -> None:
    client = start_stack("web").client(new_key())
    json = {"Content-Type": "application/json"}

    in_chunks = client.post("events/", content=iter([orjson.dumps(EVENT)]), headers=json)
    too_long = client.post("events/", content=b" " * 10_000_000, headers=json)
    after = client.post("events/", json=EVENT)

    assert (in_chunks.status_code, in_chunks.json()["code"]) == (411, "length_required")
    assert (too_long.status_code, too_long.json()["code"]) == (413, "payload_too_large")
    assert after.status_code == 202
    assert Event.objects.count() == 1


def test_a_refused_caller_whose_body_is_still_on_its_way_hears_why(start_stack: StartStack, acme: Consumer) -> None:
    """A body left unread makes the web server hang up, and the sender hears of that instead."""
    stack = start_stack("web", API_RATE_PER_SECOND="1", API_RATE_BURST="1")
    key, consumers_key = new_key(), keys.issue(role=Role.CONSUMER, consumer=acme)[1]
    assert emit_when_asked(stack, key) == "HTTP/1.1 202 Accepted"
    # Two within a second, which a busy machine may not manage at once.
    wait_until(lambda: emit_when_asked(stack, key) == "HTTP/1.1 429 Too Many Requests", seconds=60)
    assert emit_when_asked(stack, consumers_key) == "HTTP/1.1 403 Forbidden"
    assert emit_when_asked(stack, new_key(), "Content-Type: text/plain") == "HTTP/1.1 415 Unsupported Media Type"


def emit_when_asked(stack: Stack, key: str, content_type: str = "Content-Type: application/json") -> str:
    """The answer's first line. The body is sent once the server says that it reads it."""
    body = orjson.dumps(EVENT)
    fields = ["Host: localhost", f"Authorization: Bearer {key}", f"Content-Length: {len(body)}", content_type]
    head = "\r\n".join(["POST /api/v1/events/ HTTP/1.1", *fields, "Expect: 100-continue", "", ""])
    address = urlsplit(stack.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(head.encode())
        with connection.makefile("rb") as answer:
            assert [answer.readline(), answer.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]
            connection.sendall(body)
            return answer.readline().decode().strip()


def test_s10_a_key_revoked_while_its_body_is_on_the_way_makes_no_new_key(
    start_stack: StartStack, acme: Consumer
) -> None:
    """Who has stolen a key must not outlive its revocation with a request that was begun before."""
    stack = start_stack("web")
    key, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    fields = ["Host: localhost", f"Authorization: Bearer {secret}", "Content-Length: 2"]
    head = [
        "POST /api/v1/consumers/acme/keys/ HTTP/1.1",
        *fields,
        "Content-Type: application/json",
        "Expect: 100-continue",
    ]
    address = urlsplit(stack.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        with connection.makefile("rb") as answer:
            assert [answer.readline(), answer.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]
            asked_at = time.monotonic()
            assert keys.revoke(key_id=key.id, consumer=acme)
            # So long that nobody could take it for a body that was merely on its way.
            wait_until(lambda: time.monotonic() - asked_at > 1.5, seconds=20)
            connection.sendall(b"{}")
            assert answer.readline() == b"HTTP/1.1 401 Unauthorized\r\n"
    assert ApiKey.objects.filter(consumer=acme, revoked_at__isnull=True).count() == 0
