"""Every store keeps its promise: the key and the work commit together, once. Redis in front changes only the speed."""

import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from webhooks_client.receive import DbApiStore, EndedTransaction, Event, Receiver, RedisFront

from tests.receive import stores
from tests.receive.stores import Stand

EVENT = Event(id="evt_1", type="order.placed", data={})
KINDS = ["dbapi", *(["sqlalchemy"] if find_spec("sqlalchemy") else [])]


@pytest.fixture(params=KINDS)
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Stand:
    make: Callable[[Path], Stand] = getattr(stores, request.param)
    return make(tmp_path / "receiver.sqlite3")


class FakeRedis:
    """As much of Redis as the front uses. `broken` makes it fail, `lies` makes it claim that every key is there."""

    def __init__(self, *, broken: bool = False, lies: bool = False) -> None:
        self.broken, self.lies = broken, lies
        self.held: dict[str, tuple[bytes, int]] = {}
        self.asked = 0

    def exists(self, name: str) -> int:
        self._ask()
        return int(self.lies or name in self.held)

    def set(self, name: str, value: bytes, *, nx: bool, ex: int) -> bool | None:
        self._ask()
        assert nx
        if name in self.held:
            return None
        self.held[name] = (value, ex)
        return True

    def _ask(self) -> None:
        self.asked += 1
        if self.broken:
            raise ConnectionError("gone")


def run(stand: Stand, store: Any = None, event: Event = EVENT) -> str:
    return str((store or stand.store).run_once(event.id, lambda transaction: stand.work(event, transaction)))


def test_the_second_time_is_a_duplicate_and_does_nothing(stand: Stand) -> None:
    assert [run(stand), run(stand)] == ["new", "duplicate"]
    assert stand.effects() == ["evt_1"]
    assert (stand.store.seen("evt_1"), stand.store.seen("evt_2")) == (True, False)


def test_work_that_fails_leaves_neither_key_nor_effect_and_runs_again(stand: Stand) -> None:
    def fails_at_the_end(transaction: Any) -> None:
        stand.work(EVENT, transaction)
        raise RuntimeError("after the effect")

    with pytest.raises(RuntimeError):
        stand.store.run_once("evt_1", fails_at_the_end)
    assert (stand.effects(), stand.store.seen("evt_1")) == ([], False)
    assert run(stand) == "new"
    assert stand.effects() == ["evt_1"]


def test_of_fifty_at_the_same_moment_one_has_an_effect(stand: Stand) -> None:
    with ThreadPoolExecutor(50) as threads:
        outcomes = list(threads.map(lambda _: run(stand), range(50)))
    assert (outcomes.count("new"), outcomes.count("duplicate")) == (1, 49)
    assert stand.effects() == ["evt_1"]


@pytest.mark.parametrize(
    "redis",
    [FakeRedis(), FakeRedis(broken=True), FakeRedis(lies=True)],
    ids=["empty", "gone", "holding wrong keys"],
)
def test_of_fifty_behind_redis_one_has_an_effect_whatever_redis_says(stand: Stand, redis: FakeRedis) -> None:
    front = RedisFront(redis, stand.store)
    with ThreadPoolExecutor(50) as threads:
        outcomes = list(threads.map(lambda _: run(stand, front), range(50)))
    assert (outcomes.count("new"), outcomes.count("duplicate")) == (1, 49)
    assert stand.effects() == ["evt_1"]


def test_keys_are_forgotten_after_their_time(tmp_path: Path) -> None:
    now = [1000.0]
    made = stores.dbapi(tmp_path / "a.sqlite3")
    store = DbApiStore(made.store._connect, clock=lambda: now[0])
    run(made, store)
    now[0] += 100
    run(made, store, Event(id="evt_2", type="a", data={}))
    assert store.forget(older_than_seconds=50) == 1
    assert (store.seen("evt_1"), store.seen("evt_2")) == (False, True)


def test_a_duplicate_is_found_by_redis_and_confirmed_by_a_read(stand: Stand) -> None:
    redis = FakeRedis()
    front = RedisFront(redis, stand.store, seconds=60)
    assert [run(stand, front), run(stand, front)] == ["new", "duplicate"]
    assert redis.held == {"webhook:evt_1": (b"1", 60)}
    assert front.counters.snapshot()["fast_path_hit"] == 1


def test_redis_is_marked_after_the_commit_and_not_when_the_work_fails(stand: Stand) -> None:
    redis = FakeRedis()
    front = RedisFront(redis, stand.store)

    def fails(_: Any) -> None:
        assert redis.held == {}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        front.run_once("evt_1", fails)
    assert redis.held == {}


def test_a_redis_that_is_gone_is_asked_again_after_a_while(stand: Stand) -> None:
    now = [0.0]
    redis = FakeRedis(broken=True)
    front = RedisFront(redis, stand.store, clock=lambda: now[0])
    assert [run(stand, front), run(stand, front)] == ["new", "duplicate"]
    assert (redis.asked, front.counters.snapshot()["fallback"]) == (1, 1)
    redis.broken, now[0] = False, 5.0
    assert run(stand, front) == "duplicate"
    assert list(redis.held) == ["webhook:evt_1"]


def test_believing_redis_spares_the_read(tmp_path: Path) -> None:
    made = stores.dbapi(tmp_path / "a.sqlite3")
    front = RedisFront(FakeRedis(lies=True), made.store, confirm=False)
    assert run(made, front) == "duplicate"
    assert made.effects() == []


def test_a_connection_that_commits_by_itself_is_refused() -> None:
    class Autocommit:
        autocommit = True

        def rollback(self) -> None: ...

        def close(self) -> None: ...

    with pytest.raises(ValueError, match="autocommit"):
        DbApiStore(Autocommit).run_once("evt_1", lambda _: None)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_work_that_ends_its_transaction_is_told_so(stand: Stand, ends: str) -> None:
    def work(transaction: Any) -> None:
        stand.work(EVENT, transaction)
        getattr(transaction, ends)()

    with pytest.raises(EndedTransaction, match="leave commit and rollback"):
        stand.store.run_once("evt_1", work)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the attribute is new in Python 3.12")
def test_sqlite_without_its_legacy_transactions_will_do(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    made = stores.dbapi(path)
    options: dict[str, Any] = {"timeout": 30, "autocommit": False}
    store = DbApiStore(lambda: sqlite3.connect(path, **options))
    assert [run(made, store), run(made, store)] == ["new", "duplicate"]
    assert made.effects() == ["evt_1"]


def test_a_receiver_counts_with_the_redis_in_front_of_its_store(stand: Stand) -> None:
    front = RedisFront(FakeRedis(), stand.store)
    receiver = Receiver("whsec_x", store=front, work=stand.work)
    assert [receiver.process_once(EVENT), receiver.process_once(EVENT)] == ["new", "duplicate"]
    counted = receiver.counters.snapshot()
    assert (counted["new"], counted["duplicate"], counted["fast_path_hit"]) == (1, 1, 1)
