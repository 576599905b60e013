"""webhooks_platform/celery.py: what a broker that dies does to a worker's connection to it."""

import pytest
import redis
from kombu import Producer, Queue

from tests.stack import own_valkey
from webhooks_platform.celery import app
from webhooks_platform.local.server import RunningServer

__all__ = ["own_valkey"]


def test_closing_a_connection_whose_broker_died_with_a_message_at_hand_ends_no_worker(
    own_valkey: RunningServer,
) -> None:
    """Regression: Redis was killed while a background worker had a task, and an AttributeError ended that worker."""
    connection = app.connection_for_read(own_valkey.url.replace("unix://", "redis+socket://"))
    channel = connection.default_channel
    queue = Queue("unacknowledged")(channel)
    queue.declare()
    Producer(channel).publish({}, routing_key="unacknowledged", exchange="")
    assert queue.get(no_ack=False) is not None
    own_valkey.kill()
    connection.transport.client = None

    connection.close()

    assert connection.connected is False


def test_a_broker_that_is_full_when_a_worker_fetches_a_task_counts_as_away(own_valkey: RunningServer) -> None:
    """Regression: it takes no note of the task, and what kombu raised then ended the worker."""
    with app.connection_for_read(own_valkey.url.replace("unix://", "redis+socket://")) as connection:
        queue = Queue("noted")(connection.default_channel)
        queue.declare()
        Producer(connection.default_channel).publish({}, routing_key="noted", exchange="")
        with redis.Redis.from_url(own_valkey.url) as client:
            client.config_set("maxmemory", "1")

            with pytest.raises(connection.connection_errors, match="maxmemory"):
                queue.get(no_ack=False)

            client.config_set("maxmemory", "0")
