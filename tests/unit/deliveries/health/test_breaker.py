"""deliveries/health/breaker.py: what a run of outcomes means for an endpoint. Time passes because the tests say so."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deliveries.health.breaker import Breaker, EndpointHealth, HealthVerdict, Signal, judge, read_signal
from deliveries.retry import Dead, Delivered, Facts, RetryAt

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BREAKER = Breaker(failures=3, first_cooldown=10, longest_cooldown=35)

WELL = EndpointHealth(
    endpoint_id=UUID(int=1),
    max_in_flight=10,
    opens_at=NOW - timedelta(days=1),
    failure_count=0,
    failing_since=None,
    last_failure_at=None,
    breaker_open=False,
    cooldown_seconds=0,
    allowance=None,
    warning_count=0,
    recovery_owed=False,
)
SUCCESS = Signal(succeeded=True)
FAILURE = Signal(succeeded=False)


def after(lane: EndpointHealth, *signals: Signal, seconds: float = 0) -> EndpointHealth:
    return judged(lane, *signals, seconds=seconds).lane


def judged(lane: EndpointHealth, *signals: Signal, seconds: float = 0) -> HealthVerdict:
    return judge(lane, signals, breaker=BREAKER, now=at(seconds))


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def kinds(verdict: HealthVerdict) -> list[str]:
    return [kind for kind, _ in verdict.changes]


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_success_of_a_well_endpoint_changes_nothing() -> None:
    assert judged(WELL, SUCCESS) == HealthVerdict(lane=WELL, changes=[], disable_reason=None)


def test_fewer_failures_than_the_breaker_takes_hold_nobody_back() -> None:
    lane = after(after(WELL, FAILURE), FAILURE, seconds=5)

    assert (lane.breaker_open, lane.allowance, lane.opens_at) == (False, None, WELL.opens_at)
    assert (lane.failure_count, lane.failing_since, lane.last_failure_at) == (2, at(0), at(5))


def test_the_last_failure_of_the_run_opens_the_breaker_for_its_first_cool_down() -> None:
    verdict = judged(after(WELL, FAILURE, FAILURE), FAILURE, seconds=5)

    assert verdict.lane == replace(
        WELL,
        opens_at=at(15),
        failure_count=3,
        failing_since=at(0),
        last_failure_at=at(5),
        breaker_open=True,
        cooldown_seconds=10,
        allowance=1,
    )
    assert verdict.changes == [("breaker_opened", "3 failures in a row")]


def test_failures_with_a_success_between_them_are_no_run() -> None:
    verdict = judged(WELL, FAILURE, FAILURE, SUCCESS, FAILURE, FAILURE)

    assert (verdict.lane.breaker_open, verdict.lane.failure_count, verdict.changes) == (False, 2, [])


def test_failures_still_in_flight_when_the_breaker_opened_say_nothing_new() -> None:
    opened = after(WELL, FAILURE, FAILURE, FAILURE)

    late = judged(opened, *[FAILURE] * 7, seconds=3)

    assert (late.lane.opens_at, late.lane.cooldown_seconds, late.changes) == (at(10), 10, [])
    assert late.lane.failure_count == 10


# ── probing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_probe_that_fails_doubles_the_cool_down_up_to_the_longest() -> None:
    lane = after(WELL, FAILURE, FAILURE, FAILURE)
    cooldowns, clock = [lane.cooldown_seconds], 0.0
    for _ in range(4):
        clock = (lane.opens_at - NOW).total_seconds() + 1
        lane = after(lane, FAILURE, seconds=clock)
        cooldowns.append(lane.cooldown_seconds)

    assert cooldowns == [10, 20, 35, 35, 35]
    assert lane.opens_at == at(clock + 35)
    assert lane.allowance == 1


def test_a_probe_that_fails_tells_nobody_anything() -> None:
    opened = after(WELL, FAILURE, FAILURE, FAILURE)

    assert judged(opened, FAILURE, seconds=11).changes == []


def test_the_first_2xx_closes_the_breaker_and_forgets_the_run() -> None:
    opened = after(WELL, FAILURE, FAILURE, FAILURE)

    verdict = judged(opened, SUCCESS, seconds=11)

    assert verdict.lane == replace(WELL, opens_at=at(10), allowance=2)
    assert kinds(verdict) == ["breaker_closed"]


def test_a_2xx_that_was_in_flight_when_the_breaker_opened_closes_it_too() -> None:
    opened = after(WELL, FAILURE, FAILURE, FAILURE)

    assert not after(opened, SUCCESS, seconds=1).breaker_open


def test_a_first_cool_down_above_the_longest_is_the_longest() -> None:
    breaker = Breaker(failures=1, first_cooldown=60, longest_cooldown=20)

    assert judge(WELL, [FAILURE], breaker=breaker, now=NOW).lane.cooldown_seconds == 20


# ── slow start ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_after_the_breaker_has_closed_each_success_lets_one_more_be_in_flight() -> None:
    """Regression: it doubled with each, so that four answers were enough for the whole cap, however large."""
    lane = after(WELL, FAILURE, FAILURE, FAILURE)
    allowances = []
    for _ in range(10):
        lane = after(lane, SUCCESS, seconds=11)
        allowances.append(lane.allowance)

    assert allowances == [2, 3, 4, 5, 6, 7, 8, 9, None, None]


def test_an_endpoint_that_takes_one_at_a_time_needs_no_slow_start() -> None:
    lane = after(replace(WELL, max_in_flight=1), FAILURE, FAILURE, FAILURE, SUCCESS)

    assert lane.allowance is None


def test_a_failure_during_the_slow_start_keeps_the_allowance() -> None:
    lane = after(WELL, FAILURE, FAILURE, FAILURE, SUCCESS, SUCCESS, FAILURE)

    assert (lane.allowance, lane.breaker_open) == (3, False)


def test_a_run_of_failures_during_the_slow_start_opens_the_breaker_for_its_first_cool_down_again() -> None:
    lane = after(WELL, FAILURE, FAILURE, FAILURE, SUCCESS)

    lane = after(lane, FAILURE, FAILURE, FAILURE, seconds=100)

    assert (lane.breaker_open, lane.allowance, lane.cooldown_seconds, lane.opens_at) == (True, 1, 10, at(110))


def test_an_endpoint_in_its_slow_start_is_not_well_yet() -> None:
    assert WELL.is_well
    assert not replace(WELL, allowance=4).is_well
    assert not after(WELL, FAILURE).is_well


# ── pauses, warnings, the end ────────────────────────────────────────────────────────────────────────────────────────


def test_w09_a_receiver_that_asks_for_a_pause_gets_it() -> None:
    paused = after(WELL, Signal(succeeded=False, pause=timedelta(seconds=7)))

    assert paused.opens_at == at(7)


def test_w09_the_longer_of_two_pauses_holds() -> None:
    long, short = (Signal(succeeded=False, pause=timedelta(seconds=seconds)) for seconds in (60, 7))

    assert after(WELL, long, short).opens_at == at(60)


def test_w09_a_pause_longer_than_the_cool_down_outlasts_it() -> None:
    asking = Signal(succeeded=False, pause=timedelta(hours=1))

    lane = after(WELL, FAILURE, FAILURE, asking)

    assert (lane.breaker_open, lane.opens_at) == (True, at(3600))


def test_the_first_success_after_a_warning_is_a_recovery() -> None:
    warned = replace(after(WELL, FAILURE), warning_count=1, recovery_owed=True)

    verdict = judged(warned, SUCCESS, SUCCESS)

    assert kinds(verdict) == ["recovered"]
    assert (verdict.lane.warning_count, verdict.lane.recovery_owed) == (0, False)


def test_a_success_is_a_recovery_also_where_somebody_resumed_the_endpoint_before() -> None:
    resumed = replace(WELL, recovery_owed=True)
    assert not resumed.is_well
    assert kinds(judged(resumed, SUCCESS)) == ["recovered"]


def test_a_success_that_no_warning_came_before_is_no_news() -> None:
    assert judged(after(WELL, FAILURE), SUCCESS).changes == []


def test_w08_a_receiver_that_wants_nothing_more_is_disabled_once_with_its_reason() -> None:
    gone = Signal(succeeded=False, disable_reason="410")

    verdict = judged(WELL, gone, gone)

    assert (verdict.disable_reason, verdict.changes) == ("410", [])


# ── which attempts say something about the endpoint ──────────────────────────────────────────────────────────────────


def signal_of(
    status_code: int | None, error_kind: str | None = None, *, retry_after: datetime | None = None
) -> Signal | None:
    facts = Facts(status_code=status_code, error_kind=error_kind, retry_after=retry_after)
    verdict = Delivered() if status_code and 200 <= status_code < 300 else RetryAt(at(60))
    return read_signal(facts, verdict, now=NOW)


@pytest.mark.parametrize("error_kind", ["refused_address", "shortage", "internal", "worker_lost"])
def test_a_failure_that_was_not_the_receivers_says_nothing_about_it(error_kind: str) -> None:
    assert signal_of(None, error_kind) is None


ABORT = Facts(status_code=503, error_kind=None, control="abort-message")


def test_w18_a_receiver_that_refuses_one_message_says_nothing_about_itself() -> None:
    assert read_signal(ABORT, Dead("aborted_by_receiver"), now=NOW) is None


def test_w18_a_pause_it_asks_for_beside_that_is_one_and_nothing_else() -> None:
    facts = ABORT._replace(retry_after=at(60))
    signal = read_signal(facts, Dead("aborted_by_receiver"), now=NOW)
    assert signal == Signal(succeeded=None, pause=timedelta(seconds=60))
    ailing = after(WELL, FAILURE, FAILURE)
    assert after(ailing, signal) == replace(ailing, opens_at=at(60))
    assert judged(ailing, signal).changes == []


def test_w18_a_2xx_that_says_abort_is_a_success() -> None:
    signal = read_signal(ABORT._replace(status_code=200), Delivered(), now=NOW)
    assert signal == SUCCESS


def test_a_2xx_is_a_success_and_a_500_a_failure() -> None:
    assert signal_of(204) == SUCCESS
    assert signal_of(500) == FAILURE._replace(error_kind="http_500")
    assert signal_of(None, "read_timeout") == FAILURE._replace(error_kind="read_timeout")


@pytest.mark.parametrize("status_code", [429, 502, 503, 504])
def test_a_busy_receiver_is_left_alone_for_half_a_minute_at_most(status_code: int) -> None:
    failed = Signal(succeeded=False, pause=timedelta(seconds=30), error_kind=f"http_{status_code}")
    assert signal_of(status_code) == failed


def test_a_busy_receiver_is_left_alone_no_longer_than_its_own_delivery_waits() -> None:
    signal = read_signal(Facts(status_code=503, error_kind=None), RetryAt(at(5)), now=NOW)

    assert signal == Signal(succeeded=False, pause=timedelta(seconds=5), error_kind="http_503")


def test_a_busy_receiver_is_left_alone_although_its_delivery_is_dead() -> None:
    signal = read_signal(Facts(status_code=503, error_kind=None), Dead("attempts_exhausted"), now=NOW)

    assert signal == Signal(succeeded=False, pause=timedelta(seconds=30), error_kind="http_503")


def test_w09_a_retry_after_is_the_pause() -> None:
    failed = Signal(succeeded=False, pause=timedelta(hours=2), error_kind="http_503")
    assert signal_of(503, retry_after=at(7200)) == failed


# ── over time ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_six_hours_down_cost_a_handful_of_probes() -> None:
    """With a backlog that never ends, and a receiver that takes a second to fail."""
    breaker = Breaker(failures=20, first_cooldown=10, longest_cooldown=1800)
    lane, clock, requests, probes = WELL, 0.0, 0, 0
    while clock < 6 * 3600:
        in_flight = min(lane.max_in_flight, lane.allowance or lane.max_in_flight)
        requests += in_flight
        probes += lane.breaker_open
        clock += 1
        lane = judge(lane, [FAILURE] * in_flight, breaker=breaker, now=at(clock)).lane
        clock = max(clock, (lane.opens_at - NOW).total_seconds())

    assert (requests, probes) == (20 + 18, 18)


class AnyLife(RuleBasedStateMachine):
    """An endpoint through any weather. What the database's constraints demand of its lane holds at every moment."""

    def __init__(self) -> None:
        super().__init__()
        self.lane = WELL
        self.clock = 0.0

    def outcome(self, signal: Signal) -> None:
        before = self.lane
        verdict = judged(before, signal, seconds=self.clock)
        self.lane = verdict.lane
        assert self.lane.opens_at >= before.opens_at
        assert ("breaker_opened" in kinds(verdict)) == (self.lane.breaker_open and not before.breaker_open)
        assert ("breaker_closed" in kinds(verdict)) == (before.breaker_open and not self.lane.breaker_open)

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.clock += seconds

    @rule()
    def an_attempt_fails(self) -> None:
        self.outcome(FAILURE)

    @rule()
    def an_attempt_succeeds(self) -> None:
        self.outcome(SUCCESS)
        assert self.lane.failure_count == 0

    @rule(seconds=st.integers(0, 86_400))
    def the_receiver_asks_for_a_pause(self, seconds: int) -> None:
        self.outcome(Signal(succeeded=False, pause=timedelta(seconds=seconds)))
        assert self.lane.opens_at >= at(self.clock + seconds)

    @precondition(lambda self: self.lane.failure_count > 0)
    @rule()
    def a_warning_goes_out(self) -> None:
        self.lane = replace(self.lane, warning_count=self.lane.warning_count + 1, recovery_owed=True)

    @invariant()
    def an_open_breaker_allows_one_probe_after_a_cool_down(self) -> None:
        if self.lane.breaker_open:
            assert self.lane.allowance == 1
            assert self.lane.failure_count >= BREAKER.failures
            assert BREAKER.first_cooldown <= self.lane.cooldown_seconds <= BREAKER.longest_cooldown
        else:
            assert self.lane.cooldown_seconds == 0

    @invariant()
    def a_run_of_failures_has_a_beginning_and_an_end(self) -> None:
        failing = self.lane.failure_count > 0
        assert (self.lane.failing_since is not None) == failing
        assert (self.lane.last_failure_at is not None) == failing
        assert failing or self.lane.warning_count == 0

    @invariant()
    def an_allowance_is_a_real_restriction(self) -> None:
        assert self.lane.allowance is None or 1 <= self.lane.allowance < self.lane.max_in_flight


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# ── what failed last ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_failure_is_remembered_by_its_kind_until_a_success() -> None:
    refused, silent = (Signal(succeeded=False, error_kind=kind) for kind in ("http_401", "read_timeout"))
    assert after(WELL, refused).last_error_kind == "http_401"
    assert after(WELL, refused, silent).last_error_kind == "read_timeout"
    assert after(WELL, refused, silent, SUCCESS).last_error_kind is None
