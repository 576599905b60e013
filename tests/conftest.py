"""What tests reach for: callers with keys, a consumer, and a receiver on a real socket."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import psycopg
import pytest
import redis
import redis.asyncio
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import HttpResponse
from django.test import Client, TransactionTestCase
from django.test.client import ClientHandler
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from deliveries import bell, sweep, tasks
from deliveries.accepting import cache
from deliveries.api.answer_before_django import AnswerBeforeDjango
from deliveries.deliver import Pump
from deliveries.pump import database
from deliveries.pump.transport import GuardedTransport
from deliveries.statistics import totals
from subscriptions import consumers, keys
from subscriptions.guards.targets import policy
from subscriptions.limits.optional_redis import quick_redis
from subscriptions.models import Consumer, Role
from subscriptions.process import counting
from tests import described
from tests.empty_tables import empty_tables
from tests.receiver import Receiver, running_receiver

# Examples are not timed: on a busy machine one takes longer than hypothesis allows by itself.
hypothesis_settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("untimed")


class WebServer(ClientHandler):
    """What the web server calls (webhooks_platform/wsgi.py): most emits are answered before Django."""

    def __init__(self) -> None:
        super().__init__()
        self._before_django = AnswerBeforeDjango(WSGIHandler())

    def __call__(self, environ: dict[str, Any]) -> Any:
        answer = self._before_django.answer(environ)
        if answer is None:
            return super().__call__(environ)
        response = HttpResponse(answer.body, status=202, headers=dict(answer.headers))
        response.wsgi_request = WSGIRequest(environ)  # type: ignore[attr-defined]  # as Django's own handler does
        return response


class Api:
    """A caller with a key, talking JSON."""

    def __init__(self, key: str) -> None:
        self._client = Client()
        self._client.handler = WebServer()
        self._headers = {"Authorization": f"Bearer {key}"}

    def get(self, path: str, **query: Any) -> Any:
        return self._client.get(f"/api/v1/{path}", query, headers=self._headers)

    def post(self, path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> Any:
        return self._send("post", path, body, headers)

    def patch(self, path: str, body: Any) -> Any:
        return self._send("patch", path, body, None)

    def delete(self, path: str) -> Any:
        return self._send("delete", path, None, None)

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str] | None) -> Any:
        call: Callable[..., Any] = getattr(self._client, method)
        return call(
            f"/api/v1/{path}",
            data={} if body is None else body,
            content_type="application/json",
            headers={**self._headers, **(headers or {})},
        )


@pytest.fixture(autouse=True, scope="session")
def _answers_are_compared() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientHandler, "__call__", described.listening(ClientHandler.__call__))
        patch.setattr(WebServer, "__call__", described.listening(WebServer.__call__))
        yield


@pytest.fixture(autouse=True)
def _answers_are_as_described(_answers_are_compared: None) -> Iterator[None]:
    """Whatever a test is about, what the API answers in it is what the OpenAPI document says."""
    described.mismatches.clear()
    yield
    assert described.mismatches == []


@pytest.fixture(autouse=True, scope="session")
def _only_filled_tables_are_emptied() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
        yield


@pytest.fixture(autouse=True, scope="session")
def counts_stay_in_memory() -> Iterator[None]:
    """A thread of the web process writes them by itself, and the rows would be there in whatever test comes next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "FLUSH_SECONDS", 3600.0)
        yield


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    """What a process remembers of one test's consumers, types and keys is nothing to the next test."""
    yield
    cache.clear()
    keys.forget_remembered()


@pytest.fixture
def producer(db: None) -> Api:
    return Api(keys.issue(role=Role.PRODUCER)[1])


@pytest.fixture
def operator(db: None) -> Api:
    return Api(keys.issue(role=Role.OPERATOR)[1])


@pytest.fixture
def acme(db: None) -> Consumer:
    return consumers.create(uid="acme", name="Acme")


@pytest.fixture
def acme_api(acme: Consumer) -> Api:
    return Api(keys.issue(role=Role.CONSUMER, consumer=acme)[1])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


@pytest.fixture
def pump(transactional_db: None, redis_client: "redis.Redis") -> "PumpRunner":
    return PumpRunner()


@pytest.fixture
def redis_client() -> "Iterator[redis.Redis]":
    """The broker, empty: rows are rolled away between tests, and so are rings."""
    client = bell.connect()
    client.flushdb()
    yield client
    client.close()


@pytest.fixture
def patient_redis(settings: Any, redis_client: "redis.Redis") -> "Iterator[redis.Redis]":
    """An emit waits for Redis for however long a busy machine takes."""
    settings.REDIS_TIMEOUT_SECONDS = 30
    quick_redis.cache_clear()
    yield redis_client
    quick_redis.cache_clear()


class PumpRunner:
    """Runs a real pump, on the test's database, until nothing is in flight and nothing may go out now."""

    def run(self, *, transport: httpx.AsyncBaseTransport | None = None, **changes: Any) -> int:
        delivered = asyncio.run(self._run(transport, changes))
        # As the background worker does every two seconds.
        totals.fold()
        return delivered

    async def _run(self, transport: httpx.AsyncBaseTransport | None, changes: dict[str, Any]) -> int:
        before = await asyncio.to_thread(successes)
        options = replace(tasks.options(), **{"idle_seconds": 60, "sweep_seconds": 0.05, **changes})
        pool = database.new_pool()
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=5)
        carrier = transport or GuardedTransport(policy=policy())
        async with pool, client, carrier:
            pump = Pump(pool=pool, bell_client=client, transport=carrier, options=options)
            async with asyncio.timeout(60):
                running = asyncio.create_task(pump.run())
                async with pool.connection() as connection:
                    while not running.done() and not await _at_rest(connection):
                        await asyncio.wait([running], timeout=0.01)
                pump.stop()
                await running
        return await asyncio.to_thread(successes) - before


def successes() -> int:
    """Attempts that were answered with a 2xx, so far."""
    with psycopg.connect(database.conninfo(), **database.session()) as connection:
        row = connection.execute("SELECT count(*) FROM deliveries_attempt WHERE status_code BETWEEN 200 AND 299")
        return int((row.fetchone() or [0])[0])


async def _at_rest(connection: "psycopg.AsyncConnection") -> bool:
    # Both under one snapshot: between two, a claim or a settlement could hide what is under way.
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor = await connection.execute("SELECT EXISTS (SELECT FROM deliveries_delivery WHERE state = 'in_flight')")
        [in_flight] = await cursor.fetchone() or [True]
        return not in_flight and not await sweep.due_endpoints(connection, limit=1)
