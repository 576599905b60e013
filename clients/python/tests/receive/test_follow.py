"""The feed with a stored position: a restart goes on where it stopped, and nothing is skipped wherever it is killed."""

import os
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from webhooks_client import NotAuthenticated, Retries
from webhooks_client.receive import (
    Event,
    FeedListener,
    FilePositions,
    Receiver,
    RedisFront,
    RedisPositions,
    SequenceGuard,
    follow,
)

from tests.feed_server import feed_event, feed_server
from tests.platform import Platform, problem
from tests.receive import stores
from tests.receive.stores import Stand

KINDS = ["dbapi", "file", *(["sqlalchemy"] if find_spec("sqlalchemy") else [])]
EVERY = ["evt_1", "evt_2", "evt_3", "evt_4", "evt_5"]


def page(*events: dict[str, Any], following: str | None = None) -> httpx.Response:
    return httpx.Response(
        200, json={"results": list(events), "next": f"http://x/?cursor={following}" if following else None}
    )


EMPTY = page()


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return stores.dbapi(tmp_path / "receiver.sqlite3")


def listener(platform: Platform, stand: Stand, receiver: Receiver | None = None, **options: Any) -> FeedListener:
    receiver = receiver or Receiver([], store=stand.store, work=stand.work)
    client = platform.client(retries=Retries(tries=1))
    return FeedListener(client, "acme", receiver, positions=stand.store, **options)


def cursors(platform: Platform) -> list[str | None]:
    return [request.url.params.get("cursor") for request in platform.requests]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("point", "after"),
    [
        # What is asked for after the kill. Cursor 2 is the start of the page with the third and the fourth event.
        ("in the work", ["2", "4", "5"]),
        ("after the commit", ["2", "4", "5"]),
        ("before the position", ["2", "4", "5"]),
        ("after the position", ["4", "5"]),
    ],
)
def test_killed_anywhere_each_event_has_its_effect_once(
    kind: str, point: str, after: list[str], tmp_path: Path
) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with feed_server(5) as server:

        def run(at: str) -> int:
            command = [sys.executable, "-m", "tests.receive.killed_listener", server.url, str(tmp_path), kind, at]
            return subprocess.run(command, env=env, check=False, timeout=50).returncode

        assert run(point) == -signal.SIGKILL
        before = len(server.asked)
        assert run("nowhere") == 0
        assert server.asked[before:] == after
    made = Stand(None, lambda *_: None, tmp_path / "receiver.sqlite3")
    assert made.effects() == EVERY


def test_an_event_counts_as_dealt_with_when_a_later_one_is_asked_for(stand: Stand) -> None:
    platform = Platform([page(feed_event(1), following="a"), page(feed_event(2), following="b"), EMPTY])
    events = follow(platform.client(), "acme", positions=stand.store, wait=0)
    assert (next(events).id, stand.store.position("acme")) == ("evt_1", None)
    assert (next(events).id, stand.store.position("acme")) == ("evt_2", "a")
    assert (list(events), stand.store.position("acme")) == ([], "b")
    assert cursors(platform) == [None, "a", "b"]


def test_two_names_are_two_positions(stand: Stand) -> None:
    platform = Platform([page(feed_event(1), following="a"), EMPTY])
    assert len(list(follow(platform.client(), "acme", positions=stand.store, name="mails", wait=0))) == 1
    assert (stand.store.position("mails"), stand.store.position("acme")) == ("a", None)


def test_what_an_endpoint_brought_is_a_duplicate_in_the_feed(stand: Stand) -> None:
    receiver = Receiver([], store=RedisFront(None, stand.store), work=stand.work)
    assert receiver.process_once(Event.of(feed_event(1))) == "new"
    platform = Platform([page(feed_event(1), feed_event(2), following="a"), EMPTY])
    assert listener(platform, stand, receiver).catch_up() == 2
    assert stand.effects() == ["evt_1", "evt_2"]
    assert receiver.counters.snapshot()["duplicate"] == 1


def test_it_goes_on_through_outages_and_asks_at_most_once_a_second(stand: Stand) -> None:
    stop = threading.Event()
    paused: list[float] = []

    def pause(stop: threading.Event, seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 4:
            stop.set()

    outage = problem(503, "database_unavailable")
    platform = Platform([outage, httpx.ConnectError("gone"), page(feed_event(1), following="a"), outage, EMPTY])
    # The empty page is the fourth that is asked for, and its answer took a quarter of a second.
    times = iter([0.0, 1.0, 2.0, 3.0, 4.0, 4.25])
    listener(platform, stand, pause=pause, clock=lambda: next(times)).run(stop)
    assert stand.effects() == ["evt_1"]
    assert paused == [0.5, 1.0, 0.5, 0.75]
    assert [request.url.params["wait"] for request in platform.requests] == ["25"] * 5


def test_work_that_fails_is_tried_again_before_what_follows(stand: Stand) -> None:
    stop = threading.Event()
    paused: list[float] = []
    tried: list[str] = []

    def work(event: Event, transaction: Any) -> None:
        tried.append(event.id)
        stand.work(event, transaction)
        if tried.count("evt_1") < 3:
            raise RuntimeError("not yet")
        if event.id == "evt_2":
            stop.set()

    receiver = Receiver([], store=stand.store, work=work)
    platform = Platform([page(feed_event(1), feed_event(2), following="a"), EMPTY])
    listener(platform, stand, receiver, pause=lambda _, seconds: paused.append(seconds)).run(stop)
    assert tried == ["evt_1", "evt_1", "evt_1", "evt_2"]
    assert paused == [0.5, 1.0]
    assert stand.effects() == ["evt_1", "evt_2"]


def test_a_wrong_key_ends_it(stand: Stand) -> None:
    with pytest.raises(NotAuthenticated):
        listener(Platform([problem(401, "not_authenticated")]), stand).run()


def test_sequences_that_the_feed_shows_in_another_order_are_applied_in_theirs(stand: Stand) -> None:
    first, second = (feed_event(number, ordering_key="k", sequence=number) for number in (1, 2))
    receiver = Receiver([], store=stand.store, work=stand.work, guard=SequenceGuard(stand.store))
    platform = Platform([page(second, first, following="a"), page(second, first), EMPTY])
    assert listener(platform, stand, receiver).catch_up() == 2
    assert stand.effects() == ["evt_1", "evt_2"]
    assert platform.requests[1].url.path == "/api/v1/events/"


def test_an_event_whose_data_is_gone_is_reported_and_does_nothing(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    platform = Platform([page(feed_event(1, data=None), feed_event(2), following="a"), EMPTY])
    listener(platform, stand).catch_up()
    assert stand.effects() == ["evt_2"]
    assert "evt_1 (order.placed) is too old" in caplog.text


def test_a_file_keeps_every_name_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    positions = FilePositions(tmp_path / "positions.json")
    positions.set_position("acme", "a")
    positions.set_position("mails", "b")
    (tmp_path / "positions.json.new").write_text("{cut sho")
    assert [FilePositions(tmp_path / "positions.json").position(name) for name in ("acme", "mails", "other")] == [
        "a",
        "b",
        None,
    ]
    (tmp_path / "positions.json").write_text("{cut sho")
    with pytest.raises(ValueError, match="holds no positions"):
        positions.position("acme")


def test_redis_keeps_positions_under_a_prefix() -> None:
    class Redis(dict[str, bytes]):
        def set(self, name: str, value: str) -> None:
            self[name] = value.encode()

    redis = Redis()
    positions = RedisPositions(redis)
    positions.set_position("acme", "a")
    assert (positions.position("acme"), positions.position("other")) == ("a", None)
    assert list(redis) == ["webhook:position:acme"]
