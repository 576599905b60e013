"""From a shop's commit to a shipment, once in effect: a Django shop with an outbox, its relay, the platform, and
a receiver with the kit, killed at random. `make effects KILLS=100 SEED=7` runs it for longer; here is a selection.

One shipment for each order that was committed, none for one that was rolled back. The table of shipments has no unique
key: only the kit stands between a duplicate and a second shipment. Duplicates come all the time, several at once, and
the Redis in front of the receiver's store is emptied, filled with marks for events it never saw, and stopped.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
import redis
from webhooks_client.receive import sign

from tests.local import free_port, short_dir, wait_until
from tests.stack import OwnPostgres, Stack, StartStack, manage
from webhooks_platform.local import reach
from webhooks_platform.local.environment import BASE_DIR
from webhooks_platform.local.folder import claim
from webhooks_platform.local.server import RunningServer
from webhooks_platform.local.valkey import embedded_valkey

KILLS = int(os.environ.get("EFFECTS_KILLS", "13"))
SEED = int(os.environ.get("EFFECTS_SEED", "1"))
# Between two kills, so many orders are committed.
ORDERS_BETWEEN = 5
# After each of them, so many events come to the receiver again, so often at the same moment.
REPEATED_EVENTS, REPEATED_AT_ONCE = 5, 4

pytestmark = pytest.mark.timeout(240 + 30 * KILLS)

EVERYTHING = ("web", "deliveries1", "deliveries2", "background", "beat")
KILLED_OF_THE_PLATFORM = ("web", "deliveries1", "deliveries2", "background")
SHORT = {
    "DELIVERY_LEASE_SECONDS": "3",
    "DELIVERY_LEASE_RENEW_SECONDS": "1",
    "DELIVERY_SWEEP_SECONDS": "0.3",
    "BREAKER_COOLDOWN_SECONDS": "1",
    "BREAKER_MAX_COOLDOWN_SECONDS": "2",
}
SHOP = BASE_DIR / "examples" / "python" / "django_shop"


class Process:
    """A program of the producer or the consumer, which can be killed and started again."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path) -> None:
        self._command, self._env, self._log = command, env, log
        self.start()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen([sys.executable, *self._command], env=self._env, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def restart(self) -> None:
        self.kill()
        self.start()


@dataclass
class World:
    stack: Stack
    postgres: OwnPostgres
    valkey: RunningServer
    # In front of the receiver's store.
    front: RunningServer
    secret: str
    operator: httpx.Client
    shop: Process
    relay: Process
    receiver: Process
    receiver_port: int
    shop_database: Path
    shipments_database: Path
    rolled_back: Path
    # What the receiver answered to duplicates that did not come from the platform.
    repeated: Counter[str] = field(default_factory=Counter)

    def orders(self) -> list[str]:
        return _column(self.shop_database, "SELECT reference FROM shop_order")

    def unsent(self) -> list[str]:
        return _column(self.shop_database, "SELECT event_id FROM webhooks_outbox_outboxevent WHERE state <> 'accepted'")

    def shipments(self) -> list[str]:
        return _column(self.shipments_database, "SELECT reference FROM shipments")

    def repeat(self, chance: random.Random) -> None:
        """Some of the last events again, past the platform, each several times at the same moment."""
        with closing(sqlite3.connect(self.shop_database, timeout=30)) as connection:
            rows = connection.execute(
                "SELECT event_id, type, data FROM webhooks_outbox_outboxevent ORDER BY id DESC LIMIT 50"
            ).fetchall()
        chosen = chance.sample(rows, min(REPEATED_EVENTS, len(rows)))
        with ThreadPoolExecutor(REPEATED_AT_ONCE) as pool:
            self.repeated.update(pool.map(self._send, chosen * REPEATED_AT_ONCE))

    def _send(self, row: tuple[str, str, str]) -> str:
        event_id, event_type, data = row
        body = json.dumps({"id": event_id, "type": event_type, "data": json.loads(data)}).encode()
        headers = sign(body, secret=self.secret, event_id=event_id, timestamp=int(time.time()))
        try:
            answer = httpx.post(f"http://127.0.0.1:{self.receiver_port}/", content=body, headers=headers, timeout=30)
        except httpx.TransportError:
            return "no answer"
        return str(answer.json()["status"])

    def states(self) -> dict[str, int]:
        with psycopg.connect(self.postgres.url) as connection:
            return dict(connection.execute("SELECT state, count(*) FROM deliveries_delivery GROUP BY state").fetchall())

    def attempts(self) -> int:
        with psycopg.connect(self.postgres.url) as connection:
            return int((connection.execute("SELECT count(*) FROM deliveries_attempt").fetchone() or [0])[0])


def _column(path: Path, query: str) -> list[str]:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return [row[0] for row in connection.execute(query)]


@pytest.fixture
def front() -> Iterator[RunningServer]:
    with short_dir() as path, claim(path) as folder, embedded_valkey(folder) as valkey:
        yield valkey


@pytest.fixture
def world(
    own_postgres: OwnPostgres,
    own_valkey: RunningServer,
    front: RunningServer,
    start_stack: StartStack,
    tmp_path: Path,
) -> Iterator[World]:
    servers = {"DATABASE_URL": own_postgres.url, "REDIS_URL": own_valkey.url}
    key, operator_key = (manage("issue_key", "--role", role, **servers) for role in ("producer", "operator"))
    stack = start_stack(*EVERYTHING, **servers, **SHORT)
    port = free_port()
    operator = stack.client(operator_key)
    operator.post("consumers/", json={"uid": "acme"}).raise_for_status()
    endpoint = {"url": f"http://127.0.0.1:{port}/", "retry_schedule": [0] + [1] * 19}
    secret = operator.post("consumers/acme/endpoints/", json=endpoint).raise_for_status().json()["secret"]

    package = os.pathsep.join([str(BASE_DIR / "clients" / "python" / "src"), str(SHOP)])
    plain = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    env = {**plain, "PYTHONPATH": package, "PYTHONWARNINGS": "error", "WEBHOOK_SECRET": secret}
    env |= {"WEBHOOKS_URL": stack.url, "WEBHOOKS_KEY": key, "REDIS_URL": front.url}
    shop_env = {**env, "SHOP_DATABASE": str(tmp_path / "shop.sqlite3")}
    receiver_env = {**env, "SHOP_DATABASE": str(tmp_path / "shipments.sqlite3")}
    shop_manage = str(SHOP / "manage.py")
    subprocess.run([sys.executable, shop_manage, "migrate", "--verbosity", "0"], env=shop_env, check=True)
    place = [shop_manage, "place_orders", "--seed", str(SEED), "--rolled-back", str(tmp_path / "rolled-back")]
    receive = [str(BASE_DIR / "examples" / "python" / "plain_receiver.py"), str(port)]
    made = World(
        stack=stack,
        postgres=own_postgres,
        valkey=own_valkey,
        front=front,
        secret=secret,
        operator=operator,
        receiver=Process(receive, receiver_env, tmp_path / "receiver.log"),
        shop=Process(place, shop_env, tmp_path / "shop.log"),
        relay=Process([shop_manage, "relay_webhooks", "--idle", "0.1"], shop_env, tmp_path / "relay.log"),
        receiver_port=port,
        shop_database=tmp_path / "shop.sqlite3",
        shipments_database=tmp_path / "shipments.sqlite3",
        rolled_back=tmp_path / "rolled-back",
    )
    try:
        wait_until(lambda: reach.listens(f"http://127.0.0.1:{port}"))
        yield made
    finally:
        for process in (made.shop, made.relay, made.receiver):
            process.kill()
        for name in ("receiver", "shop", "relay"):
            sys.stdout.write(f"── {name} ──\n{(tmp_path / f'{name}.log').read_text()[-2000:]}\n")


def faults(world: World) -> dict[str, Callable[[], object]]:
    """Everything that can be killed, and both Redis servers."""

    def restart(server: RunningServer) -> None:
        server.kill()
        server.start()

    def without_front() -> None:
        world.front.kill()
        try:
            seen = len(world.shipments())
            wait_until(lambda: len(world.shipments()) >= seen + ORDERS_BETWEEN, seconds=60)
        finally:
            world.front.start()

    def empty(server: RunningServer) -> None:
        with redis.Redis.from_url(server.url) as client, suppress(redis.RedisError):
            client.flushall()

    def mark_unsent() -> None:
        """As if the events that come next had been seen."""
        with redis.Redis.from_url(world.front.url) as client, suppress(redis.RedisError):
            for event_id in world.unsent():
                client.set(f"webhook:{event_id}", b"1")

    return {
        "shop": world.shop.restart,
        "relay": world.relay.restart,
        "receiver": world.receiver.restart,
        **{name: partial(world.stack.restart, name) for name in KILLED_OF_THE_PLATFORM},
        "redis emptied": partial(empty, world.valkey),
        "redis killed": partial(restart, world.valkey),
        "postgres killed": partial(restart, world.postgres.server),
        "receiver's redis emptied": partial(empty, world.front),
        "receiver's redis lies": mark_unsent,
        "receiver's redis stopped": without_front,
    }


def test_each_committed_order_is_shipped_once_and_no_other(world: World) -> None:
    chance = random.Random(SEED)
    possible = faults(world)
    # Each of them once before any of them twice, in an order that the seed decides.
    plan = [name for _ in range(KILLS // len(possible) + 1) for name in chance.sample(sorted(possible), len(possible))]
    for name in plan[:KILLS]:
        seen = len(world.orders())
        wait_until(lambda least=seen + ORDERS_BETWEEN: len(world.orders()) >= least, seconds=60)  # type: ignore[misc]
        possible[name]()
        world.repeat(chance)

    world.shop.kill()
    wait_until(lambda: world.unsent() == [], seconds=90)
    orders = Counter(world.orders())
    wait_until(lambda: set(world.states()) <= {"delivered", "dead"}, seconds=120)
    if world.states().get("dead"):
        # Visible, and sent again by whoever is responsible.
        world.operator.post("replays/", json={"state": "dead", "all": True}).raise_for_status()
    wait_until(lambda: world.states() == {"delivered": len(orders)}, seconds=120)

    assert Counter(world.shipments()) == orders
    rolled_back = set(world.rolled_back.read_text().split())
    assert rolled_back
    assert rolled_back.isdisjoint(world.shipments())

    # Duplicates on purpose: every event once more, with Redis empty and a receiver that has just started.
    faults(world)["receiver's redis emptied"]()
    world.receiver.restart()
    wait_until(lambda: reach.listens(f"http://127.0.0.1:{world.receiver_port}"))
    before = world.attempts()
    world.operator.post("replays/", json={"state": "delivered", "all": True}).raise_for_status()
    wait_until(lambda: world.attempts() >= before + len(orders), seconds=120)
    wait_until(lambda: world.states() == {"delivered": len(orders)}, seconds=60)
    assert Counter(world.shipments()) == orders
    figures = {"kills": dict(Counter(plan[:KILLS])), "orders": len(orders), "rolled back": len(rolled_back)}
    figures |= {"attempts": world.attempts(), "duplicates past the platform": dict(world.repeated)}
    sys.stdout.write(json.dumps(figures) + "\n")
