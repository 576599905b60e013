"""deliveries/bell.py: who has work, in the order of ringing, and a bounded number of messages that say so."""

import json
import uuid
from typing import cast

import redis

from deliveries import bell
from deliveries.tasks import deliver_due

QUEUE = "deliveries"


def test_a_ring_right_after_another_sends_no_message_of_its_own(redis_client: "redis.Redis") -> None:
    redis_client.set(bell._RUNG, 1)  # without an end: this moment lasts
    bell.ring_now([uuid.uuid4()], client=redis_client)
    assert (redis_client.zcard(bell.READY), redis_client.llen(QUEUE)) == (1, 0)
    redis_client.delete(bell._RUNG)
    bell.ring_now([uuid.uuid4()], client=redis_client)
    assert (redis_client.zcard(bell.READY), redis_client.llen(QUEUE)) == (2, 1)


def test_an_endpoint_that_waits_already_keeps_its_place(redis_client: "redis.Redis") -> None:
    first, second = uuid.uuid4(), uuid.uuid4()
    for endpoint_id in (first, second, first):
        bell.ring_now([endpoint_id], client=redis_client)
    assert redis_client.zrange(bell.READY, 0, -1) == [first.hex.encode(), second.hex.encode()]


def test_messages_that_nobody_takes_do_not_pile_up(redis_client: "redis.Redis") -> None:
    for _ in range(bell._MOST_MESSAGES + 5):
        redis_client.delete(bell._RUNG)  # as half a second later
        bell.ring_now([uuid.uuid4()], client=redis_client)
    assert redis_client.llen(QUEUE) == bell._MOST_MESSAGES
    assert redis_client.zcard(bell.READY) == bell._MOST_MESSAGES + 5


def test_f_a_mark_from_before_the_clock_was_set_back_holds_nobody_up(redis_client: "redis.Redis") -> None:
    redis_client.set(bell._RUNG, 1, px=3_600_000)  # half a second, and then the clock went back an hour
    bell.ring_now([uuid.uuid4()], client=redis_client)
    assert redis_client.llen(QUEUE) == 1
    assert redis_client.pttl(bell._RUNG) <= bell._COALESCE_MS


def test_the_message_names_the_task_that_is_a_pump(redis_client: "redis.Redis") -> None:
    bell.ask_for_pump()
    [message] = [json.loads(each) for each in cast(list[bytes], redis_client.lrange(QUEUE, 0, -1))]
    assert message["headers"]["task"] == deliver_due.name
    assert message["properties"]["expiration"] == "60000"
