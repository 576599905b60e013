"""The simulation where there is a formula to hold it to, and the system in it where one can count by hand."""

import pytest

from benchmarks.capacity.checks import Check, drained_rate, emitted_rate, passed
from benchmarks.capacity.fit import CpuCost, Model, Times, Waits, line
from benchmarks.capacity.simulation import CpuWork, Process, Semaphore, Sleep, StickySignal, WaitFor, World
from benchmarks.capacity.system_model import System

NOTHING = CpuCost(0.0, 0.0)
FREE = Times(0.0, NOTHING, NOTHING, 0.0, 0.0, NOTHING, NOTHING, 0.0, 0.0, 0.0, 0.0, 0.0)
NO_WAITS = Waits(0.0, 0.0, 0.0, 0.0, 0.0)


def model(waits: Waits = NO_WAITS, slots: int = 400, **seconds: float | CpuCost) -> Model:
    given = {name: getattr(FREE, name) for name in Times.__slots__}
    return Model(Times(**(given | seconds)), waits, slots)


def test_one_core_does_one_thing_after_another() -> None:
    world, cores, done = World(random_times=False), Semaphore(1), list[float]()

    def work() -> Process:
        yield CpuWork(0.5, cores)
        done.append(world.now)

    for _ in range(3):
        world.start(work())
    world.run(until=lambda: len(done) == 3)
    assert done == [0.5, 1.0, 1.5]
    assert cores.busy_seconds == 1.5


def test_who_needs_a_turn_waits_for_it_although_a_core_is_free() -> None:
    world, cores, turn, done = World(random_times=False), Semaphore(2), Semaphore(), list[float]()

    def work() -> Process:
        yield CpuWork(1.0, cores, turn)
        done.append(world.now)

    world.start(work())
    world.start(work())
    world.run(until=lambda: len(done) == 2)
    assert done == [1.0, 2.0]


def test_a_wait_ends_with_its_signal_or_with_its_time() -> None:
    world, signal, woken = World(), StickySignal(), list[float]()

    def wait(timeout: float | None) -> Process:
        yield WaitFor(signal, timeout)
        woken.append(world.now)

    def call() -> Process:
        yield Sleep(2.0)
        signal.set()

    for process in (wait(None), wait(1.0), call()):
        world.start(process)
    world.run(until=lambda: len(woken) == 2)
    assert woken == [1.0, 2.0]


def test_a_single_queue_takes_as_long_as_the_formula_says() -> None:
    # M/M/1: mean time in the system 1 / (service rate - arrival rate) = 1 / (10 - 5).
    world, cores, times = World(), Semaphore(1), list[float]()

    def job() -> Process:
        came = world.now
        yield CpuWork(0.1, cores)
        times.append(world.now - came)

    def arrivals() -> Process:
        while True:
            world.start(job())
            yield Sleep(world.time_of(0.2))

    world.start(arrivals())
    world.run(until=lambda: len(times) == 40_000)
    assert sum(times) / len(times) == pytest.approx(0.2, rel=0.05)
    assert cores.busy_seconds / world.now == pytest.approx(0.5, rel=0.03)


def test_the_same_seed_gives_the_same_run() -> None:
    one = model(deliver=0.001)
    assert drained_rate(one, workers=2, count=500, cores=2) == drained_rate(one, workers=2, count=500, cores=2)


def test_a_drain_is_as_fast_as_its_slowest_part() -> None:
    # A worker's loop does one thing at a time: a millisecond each. Two have a core each, and three share two.
    one = model(deliver=0.001)
    rates = [drained_rate(one, workers=workers, count=6_000, cores=2) for workers in (1, 2, 3)]
    assert rates == [pytest.approx(1_000, rel=0.1), pytest.approx(2_000, rel=0.1), pytest.approx(2_000, rel=0.1)]


def test_a_worker_waits_while_its_slots_are_settled() -> None:
    # 10 slots, and 10 ms in which nobody works for each settlement: one for the first outcome, one for all the others.
    slow_disk = Waits(0.0, 0.0, 0.0, 0.0, flush=0.01)
    assert drained_rate(model(slow_disk, slots=10), workers=1, count=5_000, cores=2) == pytest.approx(500, rel=0.01)


@pytest.mark.parametrize("events", [1, 100])
def test_emits_that_come_together_share_a_statement(events: int) -> None:
    # A statement takes 10 ms. Two processes with 32 emits at once write more than ten times as many as one emit alone.
    one = model(store=CpuCost(each=0.0, statement=0.01))
    alone = emitted_rate(one, events=events, requests=5_000, cores=2, at_once=1)
    assert alone == pytest.approx(100 * events, rel=0.05)
    assert emitted_rate(one, events=events, requests=5_000, cores=2) > 10 * alone


def test_with_nothing_to_do_only_our_own_waits_are_left() -> None:
    # One pump that gathers for 20 ms hears of an event after 10 ms on average, and of none after more.
    gathering = Waits(bell_gather=0.0, pump_gather=0.02, settle_gather=0.0, passed_over=0.0, flush=0.0)
    found = passed(model(gathering), rate=397, pools=pools(), webs=1, workers=1)
    assert sum(found.seconds) / len(found.seconds) == pytest.approx(0.01, rel=0.05)
    assert max(found.seconds) == pytest.approx(0.02, rel=0.01)


def test_what_an_event_costs_each_part_is_counted() -> None:
    spread = Times(
        0.001, CpuCost(0.0, 0.001), CpuCost(0.0, 0.003), 0.0, 0.0, NOTHING, NOTHING, 0.004, 0.0, 0.0, 0.0, 0.0
    )
    found = passed(Model(spread, NO_WAITS, 400), rate=5, pools=pools(), webs=1, workers=1, seconds=200)
    assert found.cpu_ms["web"] == pytest.approx(2, rel=0.1)
    assert found.cpu_ms["postgres"] == pytest.approx(3, rel=0.1)
    assert found.cpu_ms["worker"] == pytest.approx(4, rel=0.1)


def test_an_endpoint_that_another_pump_claims_for_is_asked_for_again() -> None:
    # Two pumps and one endpoint: whoever finds its lane locked comes back, and nothing is left behind.
    world = World()
    one = model(claim=CpuCost(0.0, 0.01), waits=Waits(0.0, 0.0, 0.0, passed_over=0.005, flush=0.0))
    system = System(world, one.times, one.waits, cores=pools(), webs=0, workers=2, slots=5)
    for _ in range(100):
        system.owe(0, 0.0)
    system.announce([0])
    world.run(until=lambda: system.settled_count == 100)
    assert (system.settled_count, len(system.arrived)) == (100, 100)


def test_the_line_through_two_costs_says_what_a_row_and_a_statement_cost() -> None:
    # Alone a row cost 5, with a tenth of a statement each it cost 1.4: so 1 for the row and 4 for the statement.
    cost = line((1.0, 5.0), (0.1, 1.4))
    assert cost.each == pytest.approx(1.0)
    assert cost.statement == pytest.approx(4.0)


def test_noise_makes_no_cost_negative() -> None:
    assert line((1.0, 1.0), (0.1, 1.4)) == CpuCost(each=1.4, statement=0.0)


def test_the_error_of_a_check_is_relative_to_what_was_measured() -> None:
    assert Check("x", measured=100, simulated=125).error == 0.25


@pytest.mark.parametrize(("simulated", "is_close"), [(66, False), (67, True), (150, True), (151, False)])
def test_close_is_within_a_factor_both_ways(simulated: float, is_close: bool) -> None:
    assert Check("x", measured=100, simulated=simulated).is_close is is_close


def pools() -> dict[str, Semaphore]:
    return {part: Semaphore(100) for part in ("web", "worker", "postgres", "redis", "outside")}
