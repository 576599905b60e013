"""The capacity model's arithmetic: cores, machines, primaries, WAL, and when one Redis is full."""

import pytest

from benchmarks.capacity.machines import Costs, plan, redis_is_full_at

COSTS = Costs(worker=0.3, postgres=0.1, redis=0.0, web=0.6, postgres_in=0.2, redis_in=0.06)


def test_cores_are_rate_times_cost_at_sixty_per_cent_busy() -> None:
    one = plan(10_000, COSTS)
    assert (one.worker_cores, one.web_cores, one.postgres_cores, one.redis_cores) == (5.0, 10.0, 5.0, 1.0)
    assert (one.worker_processes, one.machines, one.primaries) == (5, 2, 1)


def test_beyond_one_primary_consumers_are_sharded() -> None:
    assert plan(100_000, COSTS).primaries == 2


def test_slow_receivers_need_processes_even_where_cores_suffice() -> None:
    # 200 ms each at 10,000/s are 2,000 in flight: five processes of 400, although the work would fit on one core.
    assert plan(10_000, Costs(0.01, 0.1, 0, 0.1, 0.1, 0)).worker_processes == 5


def test_wal_is_what_a_delivery_and_an_event_write_at_the_rate() -> None:
    one = plan(1_000, Costs(0.3, 0.1, 0, 0.6, 0.2, 0, wal=1_600, wal_in=1_200, worker_new_tls=2.4))
    assert (one.wal_mb_per_second, one.worker_cores_new_tls) == (2.8, 4.0)


def test_what_was_not_measured_is_not_planned() -> None:
    one = plan(1_000, COSTS)
    assert (one.wal_mb_per_second, one.worker_cores_new_tls) == (None, None)


def test_one_redis_is_full_when_its_one_thread_is() -> None:
    assert redis_is_full_at(COSTS) == pytest.approx(10_000)
    assert redis_is_full_at(Costs(0.3, 0.1, 0.0, 0.6, 0.2, 0.0)) is None
