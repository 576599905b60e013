"""webhooks_platform/web/long_poll.py: readers of the feed wait for news, bounded, without a slot."""

import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast
from uuid import UUID
from wsgiref.types import WSGIApplication

import pytest
from django.db import connections
from pytest_django import Settings

from deliveries.browse import feed
from deliveries.browse.feed import START, FeedReader
from subscriptions import keys
from subscriptions.models import Consumer, Role
from tests.conftest import Api
from tests.local import wait_until
from webhooks_platform.web.admission import Admission, InSlot
from webhooks_platform.web.handler import Handler
from webhooks_platform.web.long_poll import LongPoll, WaitingReaders

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {}}
ACME, OTHER = FeedReader(UUID(int=1), START), FeedReader(UUID(int=2), START)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as threads:
        yield threads


class Stand:
    """The applications in front of Django, as in wsgi.py, with two slots."""

    def __init__(self, settings: Settings, key: str) -> None:
        settings.WEB_SLOTS = 2
        self.long_poll = LongPoll(InSlot(cast(WSGIApplication, Handler())))
        self._door = Admission(self.long_poll)
        self._key = key

    def get(self, query: str) -> tuple[str, Any]:
        begun: list[Any] = []
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "/api/v1/consumers/acme/feed/",
            "QUERY_STRING": query,
            "HTTP_AUTHORIZATION": f"Bearer {self._key}",
            "SERVER_NAME": "testserver",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
        }
        own = connections["default"]
        try:
            body = b"".join(self._door(environ, lambda *given: cast(Any, begun.append(given[0]))))
        finally:
            connections["default"] = own
        return begun[0], json.loads(body)

    def waiting(self) -> int:
        return self.long_poll._waiting.count()

    def free_slots(self) -> int:
        return self._door._slots._tokens.qsize()

    def close(self) -> None:
        for idle in self._door._slots._idle:
            idle.close()


@pytest.fixture
def stand(settings: Settings, acme: Consumer) -> Iterator[Stand]:
    made = Stand(settings, keys.issue(role=Role.CONSUMER, consumer=acme)[1])
    yield made
    made.close()


def test_an_empty_page_is_held_back_without_a_slot_until_there_is_an_event(
    stand: Stand, producer: Api, pool: ThreadPoolExecutor
) -> None:
    answer = pool.submit(stand.get, "wait=30")
    wait_until(lambda: stand.waiting() == 1)
    assert stand.free_slots() == 2
    producer.post("events/", {**EVENT, "id": "first"})
    status, page = answer.result(20)
    assert (status, [event["id"] for event in page["results"]]) == ("200 OK", ["first"])
    assert "wait=30" in page["next"]
    assert (stand.waiting(), stand.free_slots()) == (0, 2)


def test_without_news_the_empty_page_comes_when_the_time_is_up(stand: Stand) -> None:
    assert stand.get("wait=1") == ("200 OK", {"results": [], "next": None})


def test_a_page_with_something_on_it_is_not_held_back(stand: Stand, producer: Api) -> None:
    producer.post("events/", {**EVENT, "id": "first"})
    assert [event["id"] for event in stand.get("wait=30")[1]["results"]] == ["first"]


@pytest.mark.parametrize("wait", ["31", "-1", "1.5", "x", "%C2%B2", "030", ""])
def test_a_wait_that_is_none_is_refused(stand: Stand, wait: str) -> None:
    status, problem = stand.get(f"wait={wait}")
    assert (status, problem["code"]) == ("400 Bad Request", "invalid_parameter")


def test_a_misspelt_wait_is_refused(stand: Stand) -> None:
    assert stand.get("waits=1")[1]["code"] == "unknown_parameter"


def test_more_readers_than_slots_wait_and_all_are_told(stand: Stand, producer: Api, pool: ThreadPoolExecutor) -> None:
    answers = [pool.submit(stand.get, "wait=30") for _ in range(10)]
    wait_until(lambda: stand.waiting() == 10)
    assert stand.free_slots() == 2
    producer.post("events/", {**EVENT, "id": "first"})
    assert [len(answer.result(20)[1]["results"]) for answer in answers] == [1] * 10


def test_one_more_than_may_wait_is_answered_at_once(
    settings: Settings, acme: Consumer, pool: ThreadPoolExecutor, producer: Api
) -> None:
    settings.FEED_MAX_WAITING_PER_CONSUMER = 1
    stand = Stand(settings, keys.issue(role=Role.CONSUMER, consumer=acme)[1])
    first = pool.submit(stand.get, "wait=30")
    wait_until(lambda: stand.waiting() == 1)
    # It would take half a minute otherwise, and the first one is still there.
    assert stand.get("wait=30") == ("200 OK", {"results": [], "next": None})
    assert not first.done()
    producer.post("events/", EVENT)
    assert len(first.result(20)[1]["results"]) == 1
    stand.close()


class Looks:
    """What is known of news, told when a test says so."""

    def __init__(self) -> None:
        self.asked: list[list[FeedReader]] = []
        self.news: set[FeedReader] = set()
        self.error: Exception | None = None

    def __call__(self, places: Any) -> set[int]:
        self.asked.append(list(places))
        if self.error:
            raise self.error
        return {index for index, place in enumerate(places) if place in self.news}


def wait_for(pool: ThreadPoolExecutor, waiting: WaitingReaders, *places: FeedReader) -> list[Future[bool]]:
    before = waiting.count()
    told = [pool.submit(waiting.wait, place, seconds=30) for place in places]
    wait_until(lambda: waiting.count() == before + len(places))
    return told


def test_only_who_has_news_is_told_and_one_look_serves_all(pool: ThreadPoolExecutor) -> None:
    looks = Looks()
    waiting = WaitingReaders(most=9, most_of_one=9, look=looks, look_seconds=0.01)
    told = wait_for(pool, waiting, ACME, OTHER)
    wait_until(lambda: {ACME, OTHER} == set(looks.asked[-1]))
    looks.news = {OTHER}
    assert told[1].result(20) is True
    assert not told[0].done()
    looks.news = {ACME}
    assert told[0].result(20) is True


def test_the_bounds_hold_for_all_and_for_each_consumer(pool: ThreadPoolExecutor) -> None:
    looks = Looks()
    waiting = WaitingReaders(most=3, most_of_one=2, look=looks, look_seconds=0.01)
    told = wait_for(pool, waiting, ACME, ACME)
    assert waiting.wait(ACME, seconds=30) is False
    told += wait_for(pool, waiting, OTHER)
    assert waiting.wait(FeedReader(UUID(int=3), START), seconds=30) is False
    looks.news = {ACME, OTHER}
    assert [each.result(20) for each in told] == [True] * 3


def test_nobody_looks_when_nobody_waits(pool: ThreadPoolExecutor) -> None:
    looks = Looks()
    waiting = WaitingReaders(most=9, most_of_one=9, look=looks, look_seconds=0.01)
    for _ in range(2):
        looks.news = set()
        told = wait_for(pool, waiting, ACME)
        looks.news = {ACME}
        assert told[0].result(20) is True
        wait_until(lambda: "feed news" not in {thread.name for thread in threading.enumerate()})


def test_a_look_that_fails_answers_everybody_with_what_they_have(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    looks = Looks()
    looks.error = RuntimeError("the database is away")
    waiting = WaitingReaders(most=9, most_of_one=9, look=looks, look_seconds=0.01)
    told = [pool.submit(waiting.wait, place, seconds=30) for place in (ACME, OTHER)]
    assert [each.result(20) for each in told] == [False, False]


def test_the_statement_finds_the_places_with_something_behind_them(producer: Api, acme: Consumer) -> None:
    producer.post("events/", {**EVENT, "id": "first"})
    page = feed.read(acme, after=START, limit=10)
    at_the_end, at_the_start = FeedReader(acme.id, page.position), FeedReader(acme.id, START)
    assert feed.with_news([at_the_end, at_the_start, OTHER]) == {1}
    assert feed.with_news([]) == set()
