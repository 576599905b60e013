"""subscriptions/limits/optional_redis.py: what is asked of a Redis that does not answer."""

import redis

from subscriptions.limits.optional_redis import QuickRedis


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Answers, or does not; counts how often it was asked."""

    def __init__(self) -> None:
        self.answers = True
        self.asked = 0

    def question(self, client: "redis.Redis") -> str:
        self.asked += 1
        if not self.answers:
            raise redis.TimeoutError("Timeout reading from socket")
        return "yes"


def quick(clock: Clock) -> QuickRedis:
    return QuickRedis(redis.Redis(), clock=clock)


def test_after_one_failure_nobody_asks_for_a_second() -> None:
    clock, server = Clock(), Server()
    server.answers = False
    asker = quick(clock)

    assert [asker.ask(server.question, default="no") for _ in range(5)] == ["no"] * 5
    assert server.asked == 1


def test_after_the_pause_one_caller_finds_out_for_all() -> None:
    """Regression: all who came in the moment after the pause waited for the time-out, each in a thread of its own."""
    clock, server = Clock(), Server()
    server.answers = False
    asker = quick(clock)
    asker.ask(server.question, default="no")
    clock.now += 1
    others: list[str] = []

    def question(client: "redis.Redis") -> str:
        others.extend(asker.ask(server.question, default="no") for _ in range(3))
        return server.question(client)

    assert asker.ask(question, default="no") == "no"
    assert (others, server.asked) == (["no"] * 3, 2)


def test_a_redis_that_answers_again_is_asked_by_everybody() -> None:
    clock, server = Clock(), Server()
    server.answers = False
    asker = quick(clock)
    asker.ask(server.question, default="no")
    clock.now += 1
    server.answers = True

    assert [asker.ask(server.question, default="no") for _ in range(3)] == ["yes"] * 3
    assert server.asked == 4
