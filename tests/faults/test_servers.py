"""CONFORMANCE F, for the servers beneath: Redis emptied, stopped and full, PostgreSQL restarted under load."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import psycopg
import pytest
import redis

from tests.local import wait_until
from tests.receiver import Receiver
from tests.stack import OwnPostgres, Stack, StartStack, manage
from webhooks_platform.local.server import RunningServer

pytestmark = [pytest.mark.timeout(180)]

SHORT = {"DELIVERY_LEASE_SECONDS": "3", "DELIVERY_LEASE_RENEW_SECONDS": "1", "DELIVERY_SWEEP_SECONDS": "0.3"}
EVERYTHING = ("web", "deliveries1", "deliveries2", "background", "beat")


class Emitter:
    """A producer that does what producers should: a key per event, and the same request again until it is answered."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.accepted: list[str] = []

    @contextmanager
    def emitting(self) -> Iterator["Emitter"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            self._thread.join(60)
            assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            if self._emit(number):
                number += 1

    def _emit(self, number: int) -> bool:
        event = {"consumer": "acme", "type": "load.test", "data": {"number": number}}
        try:
            answer = self._client.post("events/", json=event, headers={"Idempotency-Key": f"event-{number}"})
        except httpx.TransportError:
            return False
        if answer.status_code == 202:
            self.accepted.append(answer.json()["id"])
            return True
        assert answer.status_code in (409, 503), answer.text
        return False


def prepare(stack_client: httpx.Client, receiver: Receiver) -> None:
    assert stack_client.post("consumers/", json={"uid": "acme"}).status_code == 201
    answer = stack_client.post(
        "consumers/acme/endpoints/", json={"url": receiver.url, "retry_schedule": [0, 1, 1, 1, 1]}
    )
    assert answer.status_code == 201, answer.text


@dataclass(frozen=True)
class Platform:
    """Everything at work, on servers of its own, with a producer and a consumer whose receiver is real."""

    stack: Stack
    client: httpx.Client


@pytest.fixture
def platform(
    own_postgres: OwnPostgres, own_valkey: RunningServer, receiver: Receiver, start_stack: StartStack
) -> Platform:
    env = {"DATABASE_URL": own_postgres.url, "REDIS_URL": own_valkey.url}
    key = manage("issue_key", "--role", "producer", **env)
    stack = start_stack(*EVERYTHING, **env, **SHORT)
    client = stack.client(key)
    prepare(client, receiver)
    return Platform(stack, client)


def stop_all(stack: Stack) -> None:
    """As a deploy does: all of them told to stop, and each ends by itself."""
    for name in EVERYTHING:
        stack.terminate(name)
    for name in EVERYTHING:
        stack.wait_ended(name, seconds=90)


def flush(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()


def settled(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        return dict(connection.execute("SELECT state, count(*) FROM deliveries_delivery GROUP BY state").fetchall())


def all_delivered(url: str, count: int) -> bool:
    return settled(url) == {"delivered": count}


def test_redis_emptied_and_stopped_under_load_loses_nothing(
    platform: Platform, own_postgres: OwnPostgres, own_valkey: RunningServer, receiver: Receiver
) -> None:
    with Emitter(platform.client).emitting() as emitter:
        wait_until(lambda: len(emitter.accepted) >= 50, seconds=30)
        flush(own_valkey.url)
        wait_until(lambda: len(emitter.accepted) >= 100, seconds=30)
        own_valkey.kill()
        seen = len(emitter.accepted)
        wait_until(lambda: len(emitter.accepted) >= seen + 50, seconds=60)
        own_valkey.start()
        seen = len(emitter.accepted)
        wait_until(lambda: len(emitter.accepted) >= seen + 20, seconds=60)

    wait_until(lambda: all_delivered(own_postgres.url, len(emitter.accepted)), seconds=60)
    arrived = Counter(str(one.headers["Webhook-Id"]) for one in receiver.received)
    assert set(arrived) == set(emitter.accepted)
    assert len(set(emitter.accepted)) == len(emitter.accepted)


def test_postgres_killed_and_restarted_under_load_loses_nothing_and_gone_for_good_it_holds_up_no_deploy(
    platform: Platform, own_postgres: OwnPostgres, own_valkey: RunningServer, receiver: Receiver
) -> None:
    with Emitter(platform.client).emitting() as emitter:
        wait_until(lambda: len(emitter.accepted) >= 50, seconds=30)
        own_postgres.server.kill()
        own_postgres.server.start()
        seen = len(emitter.accepted)
        wait_until(lambda: len(emitter.accepted) >= seen + 50, seconds=60)

    wait_until(lambda: all_delivered(own_postgres.url, len(emitter.accepted)), seconds=60)
    arrived = Counter(str(one.headers["Webhook-Id"]) for one in receiver.received)
    assert set(arrived) == set(emitter.accepted)

    own_postgres.server.kill()
    stop_all(platform.stack)


def test_a_deploy_stops_and_starts_everything_and_loses_nothing(
    platform: Platform, own_postgres: OwnPostgres, own_valkey: RunningServer, receiver: Receiver
) -> None:
    with Emitter(platform.client).emitting() as emitter:
        wait_until(lambda: len(emitter.accepted) >= 50, seconds=30)
        stop_all(platform.stack)
        for name in EVERYTHING:
            platform.stack.start_more(name)
        seen = len(emitter.accepted)
        wait_until(lambda: len(emitter.accepted) >= seen + 50, seconds=60)

    wait_until(lambda: all_delivered(own_postgres.url, len(emitter.accepted)), seconds=60)
    arrived = Counter(str(one.headers["Webhook-Id"]) for one in receiver.received)
    # A deploy is not a crash: what was in flight was finished, so nothing came twice.
    assert arrived == Counter(emitter.accepted)
