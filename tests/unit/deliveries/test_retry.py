"""deliveries/retry.py: what an attempt's outcome means for its delivery. The clock and the jitter are given."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from deliveries.retry import Dead, Delivered, Facts, RetryAt, Verdict, decide, disables, read_retry_after
from webhooks_platform import settings

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DEFAULT_SCHEDULE = [0, 60, 300, 1800, 7200, 36000, 86400]
DAY = timedelta(hours=24)


def answered(status_code: int, *, control: str | None = None, retry_after: datetime | None = None) -> Facts:
    return Facts(status_code=status_code, error_kind=None, control=control, retry_after=retry_after)


def unanswered(error_kind: str) -> Facts:
    return Facts(status_code=None, error_kind=error_kind)


def decided(facts: Facts, *, attempt: int = 1, schedule: list[int] = DEFAULT_SCHEDULE, jitter: float = 0.0) -> Verdict:
    return decide(facts, attempt_in_round=attempt, schedule=schedule, now=NOW, jitter=jitter)


def wait_after(attempt: int, *, jitter: float = 0.0) -> float:
    verdict = decided(answered(500), attempt=attempt, jitter=jitter)
    assert isinstance(verdict, RetryAt)
    return (verdict.at - NOW).total_seconds()


# ── which answers succeed ────────────────────────────────────────────────────────────────────────────────────────────


def test_w07_each_of_200_to_299_is_delivered_and_no_other_status() -> None:
    delivered = [status for status in range(100, 1000) if decided(answered(status)) == Delivered()]

    assert delivered == list(range(200, 300))


def test_w07_every_failure_but_410_waits_for_the_next_attempt() -> None:
    retried = [s for s in range(100, 1000) if decided(answered(s)) == RetryAt(NOW + timedelta(seconds=60))]

    assert retried == [*range(100, 200), *range(300, 410), *range(411, 1000)]


@pytest.mark.parametrize(
    "error_kind",
    ["connect_timeout", "connect_failed", "dns", "tls", "read_timeout", "reset", "bad_response", "internal"],
)
def test_an_attempt_without_an_answer_waits_for_the_next_one(error_kind: str) -> None:
    assert decided(unanswered(error_kind)) == RetryAt(NOW + timedelta(seconds=60))


def test_a_2xx_is_delivered_even_as_the_last_attempt() -> None:
    assert decided(answered(200), attempt=7) == Delivered()


# ── the schedule ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_schedule_is_seven_attempts_over_a_day_and_a_half() -> None:
    assert settings.DELIVERY_RETRY_SCHEDULE == DEFAULT_SCHEDULE


def test_each_failed_attempt_waits_for_the_schedules_next_entry() -> None:
    assert [wait_after(attempt) for attempt in range(1, 7)] == DEFAULT_SCHEDULE[1:]


def test_w13_the_last_attempt_of_the_schedule_is_dead() -> None:
    assert decided(answered(500), attempt=7) == Dead("attempts_exhausted")


def test_a_schedule_of_one_entry_allows_one_attempt() -> None:
    assert decided(answered(500), schedule=[0]) == Dead("attempts_exhausted")


def test_a_schedule_cut_short_under_way_ends_a_delivery_that_is_past_it() -> None:
    assert decided(answered(500), attempt=5, schedule=[0, 60]) == Dead("attempts_exhausted")


@pytest.mark.parametrize("attempt", range(1, 7))
def test_w12_jitter_moves_a_wait_by_a_fifth_at_most(attempt: int) -> None:
    wait = DEFAULT_SCHEDULE[attempt]

    assert wait_after(attempt, jitter=-1) == pytest.approx(0.8 * wait)
    assert wait_after(attempt, jitter=1) == pytest.approx(1.2 * wait)


@hypothesis_settings(deadline=None)
@given(jitter=st.floats(-1, 1), attempt=st.integers(1, 6))
def test_w12_every_jitter_stays_within_a_fifth(jitter: float, attempt: int) -> None:
    wait = DEFAULT_SCHEDULE[attempt]

    assert 0.8 * wait - 1e-5 <= wait_after(attempt, jitter=jitter) <= 1.2 * wait + 1e-5


FACTS = st.builds(
    Facts,
    status_code=st.integers(100, 999),
    error_kind=st.none(),
    control=st.sampled_from([None, "disable", "abort-message", "nonsense"]),
    retry_after=st.none() | st.integers(0, 86_400).map(lambda seconds: NOW + timedelta(seconds=seconds)),
) | st.sampled_from(["read_timeout", "worker_lost", "refused_address", "internal"]).map(unanswered)


@hypothesis_settings(deadline=None)
@given(
    outcomes=st.lists(FACTS, min_size=1, max_size=5),
    schedule=st.lists(st.integers(0, 604_800), min_size=1, max_size=20),
)
def test_attempts_never_exceed_the_schedule_whatever_happens(outcomes: list[Facts], schedule: list[int]) -> None:
    attempts = 0
    for facts in outcomes * 21:
        attempts += 1
        if not isinstance(decided(facts, attempt=attempts, schedule=schedule), RetryAt):
            break

    assert attempts <= len(schedule)


# ── a receiver that says what it wants ───────────────────────────────────────────────────────────────────────────────


def test_w08_410_ends_the_delivery_and_disables_its_endpoint() -> None:
    assert decided(answered(410)) == Dead("endpoint_disabled")
    assert disables(answered(410)) == "The receiver answered 410 Gone."


def test_w08_the_header_disable_ends_the_delivery_and_disables_its_endpoint() -> None:
    facts = answered(500, control="disable")

    assert decided(facts) == Dead("endpoint_disabled")
    assert disables(facts) == "The receiver answered with `webhook-delivery: disable`."


def test_w08_a_2xx_with_the_header_disable_is_delivered_and_disables_all_the_same() -> None:
    facts = answered(200, control="disable")

    assert decided(facts) == Delivered()
    assert disables(facts) is not None


def test_w08_the_header_abort_message_ends_this_delivery_and_no_more() -> None:
    facts = answered(500, control="abort-message")

    assert decided(facts) == Dead("aborted_by_receiver")
    assert disables(facts) is None


def test_an_unknown_control_word_changes_nothing() -> None:
    facts = answered(500, control="please")

    assert decided(facts) == RetryAt(NOW + timedelta(seconds=60))
    assert disables(facts) is None


def test_a_refused_address_is_dead_at_once() -> None:
    assert decided(unanswered("refused_address")) == Dead("refused_address")


def test_an_attempt_lost_with_its_worker_is_due_again_at_once() -> None:
    assert decided(unanswered("worker_lost"), jitter=1) == RetryAt(NOW)


def test_the_last_attempt_lost_with_its_worker_is_dead() -> None:
    assert decided(unanswered("worker_lost"), attempt=7) == Dead("attempts_exhausted")


def test_w09_the_first_retry_after_takes_the_place_of_the_schedules_wait_without_jitter() -> None:
    facts = answered(503, retry_after=NOW + timedelta(seconds=7))

    assert decided(facts, jitter=1) == RetryAt(NOW + timedelta(seconds=7))


def test_w09_a_later_retry_after_makes_an_attempt_later_and_never_earlier_than_its_schedule() -> None:
    """Regression: a receiver that always answered `Retry-After: 1` used up seven attempts in six seconds."""
    soon, late = (answered(429, retry_after=NOW + timedelta(seconds=seconds)) for seconds in (1, 3600))

    assert decided(soon, attempt=2) == RetryAt(NOW + timedelta(seconds=300))
    assert decided(late, attempt=2) == RetryAt(NOW + timedelta(seconds=3600))


def test_w09_a_retry_after_grants_no_attempt_beyond_the_schedule() -> None:
    assert decided(answered(503, retry_after=NOW), attempt=7) == Dead("attempts_exhausted")


# ── Retry-After ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status_code", [429, 503])
@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("7", timedelta(seconds=7)),
        (" 7 ", timedelta(seconds=7)),
        ("0", timedelta(0)),
        ("86400", DAY),
        ("31536000", DAY),
        ("9" * 5000, DAY),
        ("Sun, 01 Mar 2026 12:00:07 GMT", timedelta(seconds=7)),
        ("Sunday, 01-Mar-26 12:00:07 GMT", timedelta(seconds=7)),
        ("Sun Mar  1 12:00:07 2026", timedelta(seconds=7)),
        ("Sun, 01 Mar 2026 14:00:07 +0200", timedelta(seconds=7)),
        ("Mon, 01 Mar 2027 12:00:00 GMT", DAY),
        ("Fri, 31 Dec 9999 23:59:59 -2359", DAY),
    ],
)
def test_w09_seconds_and_dates_are_read_and_clamped_to_a_day(value: str, wait: timedelta, status_code: int) -> None:
    assert read_retry_after(value, status_code=status_code, now=NOW) == NOW + wait


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "-1",
        "1.5",
        "7s",
        "٧",
        "²",
        "1e3",
        "0x7",
        "NaN",
        "Sun, 01 Mar 2026 11:59:59 GMT",
        "Sun, 32 Mar 2026 12:00:07 GMT",
        "Sun, 01 Mar 99999 12:00:07 GMT",
        "Sun, 01 Mar 2026 12:00:07 +9999",
        # Regression: these two overflowed, which no longer counted as nonsense and left the delivery in flight.
        "Sun, 01 Mar 2026 12:00:07 +99999999999999999999",
        "1 Mar 99999999999999999999 12:00:07 GMT",
    ],
)
def test_w09_nonsense_and_the_past_count_as_absent(value: str) -> None:
    assert read_retry_after(value, status_code=503, now=NOW) is None


@pytest.mark.parametrize("status_code", [200, 301, 408, 410, 425, 500, 502, 504])
def test_w09_only_429_and_503_may_ask_for_a_wait(status_code: int) -> None:
    assert read_retry_after("7", status_code=status_code, now=NOW) is None


def test_w09_no_header_is_no_wait() -> None:
    assert read_retry_after(None, status_code=503, now=NOW) is None


@hypothesis_settings(deadline=None)
@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_w09_whatever_the_header_says_the_wait_lies_between_now_and_a_day(value: str) -> None:
    at = read_retry_after(value, status_code=429, now=NOW)

    assert at is None or NOW <= at <= NOW + DAY


@hypothesis_settings(deadline=None)
@given(st.integers(-86_400, 10 * 86_400))
def test_w09_a_date_holds_back_until_exactly_then(seconds: int) -> None:
    at = NOW + timedelta(seconds=seconds)

    read = read_retry_after(format_datetime(at, usegmt=True), status_code=503, now=NOW)

    assert read == (None if seconds < 0 else min(at, NOW + DAY))
