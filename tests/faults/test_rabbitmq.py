"""RabbitMQ as Celery's broker: killed under load, with messages nobody takes, and impatient with a busy worker."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from amqp.exceptions import PreconditionFailed
from celery import Celery
from kombu import Connection, Consumer, Producer, Queue

from tests import rabbitmq
from tests.faults.test_servers import EVERYTHING, SHORT, Emitter, all_delivered, prepare
from tests.local import short_dir, wait_until
from tests.rabbitmq import queue_length
from tests.receiver import Receiver
from tests.stack import OwnPostgres, StartStack, manage
from webhooks_platform.local.environment import BASE_DIR
from webhooks_platform.local.server import RunningServer

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not rabbitmq.is_installed(), reason="rabbitmq-server is not installed here"),
]

# A worker whose task holds it up until a file appears, and which takes the next message meanwhile.
BUSY_WORKER = """
import os, pathlib, time
from celery import Celery
from deliveries.pump.held_messages import acknowledge_in_time

app = Celery("busy")
app.conf.update(worker_prefetch_multiplier=1, task_ignore_result=True)
acknowledge_in_time(task="busy.work", seconds=1)

@app.task(name="busy.work")
def work():
    with open("begun", "a") as begun:
        begun.write("x")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
"""


@pytest.fixture
def own_rabbitmq() -> Iterator[RunningServer]:
    with short_dir() as path, rabbitmq.running_rabbitmq(path) as server:
        yield server


def test_rabbitmq_killed_and_restarted_under_load_loses_nothing(
    own_postgres: OwnPostgres,
    own_valkey: RunningServer,
    own_rabbitmq: RunningServer,
    receiver: Receiver,
    start_stack: StartStack,
) -> None:
    env = {"DATABASE_URL": own_postgres.url, "REDIS_URL": own_valkey.url, "CELERY_BROKER_URL": own_rabbitmq.url}
    key = manage("issue_key", "--role", "producer", **env)
    stack = start_stack(*EVERYTHING, **env, **SHORT)
    client = stack.client(key)
    prepare(client, receiver)
    with Emitter(client).emitting() as emitter:
        wait_until(lambda: len(emitter.accepted) >= 50, seconds=30)
        own_rabbitmq.kill()
        ready = httpx.get(f"{stack.url}/readyz", timeout=10)
        assert (ready.status_code, ready.json()["broker"], ready.json()["redis"]) == (503, "down", "ok")
        seen = len(emitter.accepted)
        wait_until(lambda: len(emitter.accepted) >= seen + 50, seconds=60)
        own_rabbitmq.start()
        # With nobody left who was there before, only new messages through the broker that came back start pumps.
        for worker in ("deliveries1", "deliveries2"):
            stack.restart(worker)
        seen = len(emitter.accepted)
        wait_until(lambda: len(emitter.accepted) >= seen + 20, seconds=60)

    wait_until(lambda: all_delivered(own_postgres.url, len(emitter.accepted)), seconds=60)
    assert httpx.get(f"{stack.url}/readyz", timeout=10).json()["broker"] == "ok"
    arrived = Counter(str(one.headers["Webhook-Id"]) for one in receiver.received)
    assert set(arrived) == set(emitter.accepted)


def test_rings_share_a_message_which_ends_by_itself_and_is_not_written_to_disk(
    own_rabbitmq: RunningServer, redis_client: "redis.Redis"
) -> None:
    ask = """if True:
        import django
        django.setup()
        from deliveries import bell
        from subscriptions import ids
        for _ in range(3):
            bell.ring_now([ids.new_uuid()], client=bell.connect())
    """
    env = {**os.environ, "CELERY_BROKER_URL": own_rabbitmq.url}
    subprocess.run([sys.executable, "-W", "ignore::RuntimeWarning", "-c", ask], cwd=BASE_DIR, env=env, check=True)
    with Connection(own_rabbitmq.url) as connection:
        channel: Any = connection.default_channel
        message = channel.basic_get("deliveries")
        assert channel.basic_get("deliveries") is None
    assert message.properties["expiration"] == "60000"
    assert message.properties["delivery_mode"] == 1


def test_a_worker_that_is_busy_for_longer_than_rabbitmq_waits_goes_on_and_takes_the_next_message(
    tmp_path: Path,
) -> None:
    (tmp_path / "busy.py").write_text(BUSY_WORKER)
    impatient = "-rabbit consumer_timeout 3000 -rabbit channel_tick_interval 1000"
    with short_dir() as path, rabbitmq.running_rabbitmq(path, options=impatient) as server:
        app = Celery(broker=server.url, set_as_current=False)
        app.conf.task_default_delivery_mode = "transient"
        worker = [sys.executable, "-m", "celery", "--app", "busy", "--workdir", str(tmp_path), "worker"]
        options = ["--pool", "threads", "--concurrency", "1", "--without-gossip", "--without-mingle"]
        env = {"CELERY_BROKER_URL": server.url, "PYTHONPATH": str(BASE_DIR), "PATH": "/usr/bin:/bin"}
        for _ in range(3):
            app.send_task("busy.work")
        running = subprocess.Popen([*worker, *options], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL)
        try:
            # The first is at work, the second held and acknowledged after a second, and then the third.
            wait_until(lambda: (tmp_path / "begun").exists() and queue_length(server.url, "celery") == 0, seconds=30)
            wait_until_rabbitmq_loses_patience(server.url)
            (tmp_path / "go").touch()
            wait_until(lambda: (tmp_path / "begun").read_text() == "xxx", seconds=30)
            assert running.poll() is None
        finally:
            running.kill()
            running.wait(10)
            app.close()


def wait_until_rabbitmq_loses_patience(url: str) -> None:
    """With a consumer that has just taken a message and keeps it."""
    with Connection(url) as connection:
        queue = Queue("kept", channel=connection.default_channel)
        queue.declare()
        Producer(connection.default_channel).publish({}, routing_key="kept")
        taken: list[Any] = []
        callbacks = [lambda body, message: taken.append(message)]
        with (
            Consumer(connection.default_channel, [queue], callbacks=callbacks),
            pytest.raises(PreconditionFailed, match="delivery acknowledgement on channel 1 timed out"),
        ):
            while True:
                connection.drain_events(timeout=30)
        assert len(taken) == 1
