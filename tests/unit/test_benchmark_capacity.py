"""The capacity model's arithmetic, and its simulation where there is a formula to hold it to."""

import pytest

from benchmarks.capacity import Check, Costs, plan
from benchmarks.simulation import Station, simulate

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


def test_the_error_of_a_check_is_relative_to_what_was_measured() -> None:
    assert Check("x", measured=100, simulated=125).error == 0.25


def test_one_busy_server_passes_one_job_per_time_of_service() -> None:
    found = simulate([Station("only", 1, 0.5)], count=100, in_flight=10, random_times=False)
    assert found.rate == pytest.approx(2.0)
    assert found.utilisation["only"] == pytest.approx(1.0, rel=0.02)


def test_the_slowest_station_sets_the_rate() -> None:
    stations = [Station("fast", 1, 0.1), Station("slow", 2, 1.0)]
    found = simulate(stations, count=2_000, in_flight=50, random_times=False)
    assert found.rate == pytest.approx(2.0, rel=0.01)


def test_cores_shared_by_all_stations_set_the_rate_when_they_run_out() -> None:
    stations = [Station("a", 8, 0.3), Station("b", 8, 0.1)]
    found = simulate(stations, count=4_000, cores=2, in_flight=50, random_times=False)
    assert found.rate == pytest.approx(2 / 0.4, rel=0.02)


def test_a_single_queue_takes_as_long_as_the_formula_says() -> None:
    # M/M/1: mean time in the system 1 / (service rate - arrival rate) = 1 / (10 - 5).
    found = simulate([Station("only", 1, 0.1)], count=40_000, arrivals_per_second=5)
    assert found.mean_seconds == pytest.approx(0.2, rel=0.05)
    assert found.utilisation["only"] == pytest.approx(0.5, rel=0.03)


def test_the_same_seed_gives_the_same_run() -> None:
    stations = [Station("a", 1, 0.1)]
    assert simulate(stations, count=500, in_flight=3) == simulate(stations, count=500, in_flight=3)
