"""deliveries/console/failing.py: why an endpoint fails, as an operator reads it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deliveries.console.failing import Failing, failing
from subscriptions.models import Endpoint, Lane

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def endpoint(*, status: str = "active", reason: str = "", **lane: Any) -> Endpoint:
    made = Endpoint(status=status, disabled_reason=reason)
    made.lane = Lane(endpoint=made, **{"opens_at": NOW, **lane})
    return made


def ill(error_kind: str | None, **fields: Any) -> Endpoint:
    since = {"failing_since": NOW - timedelta(hours=2), "last_error_kind": error_kind}
    return endpoint(**{"failure_count": 3, **since, **fields})


def told(of: Endpoint) -> Failing:
    found = failing(of, now=NOW)
    assert found is not None
    return found


@pytest.mark.parametrize("status", ["active", "paused"])
def test_an_endpoint_that_answers_well_has_no_trouble(status: str) -> None:
    assert failing(endpoint(status=status), now=NOW) is None


def test_a_failing_endpoint_says_its_last_answer_since_when_and_what_to_do() -> None:
    assert told(ill("http_404")) == Failing(
        tone="wait",
        state="failing",
        last="Last answer: 404 Not Found",
        since=NOW - timedelta(hours=2),
        failure_count=3,
        what_to_do="Nothing takes webhooks at this path: ask its owner to correct the URL.",
        advice="Nothing takes webhooks at this path: ask its owner to correct the URL.",
    )


@pytest.mark.parametrize(
    ("kind", "last", "advice"),
    [
        ("http_503", "Last answer: 503 Service Unavailable", "the receiver's own log"),
        ("http_302", "Last answer: 302 Found", "Redirects are never followed"),
        ("read_timeout", "No answer: read timeout", "answer first and work afterwards"),
        ("dns", "No answer: dns", "The host name leads nowhere"),
    ],
)
def test_each_answer_and_error_has_its_advice(kind: str, last: str, advice: str) -> None:
    found = told(ill(kind))
    assert (found.last, advice in found.what_to_do) == (last, True)


def test_behind_an_open_breaker_the_next_probe_is_said() -> None:
    found = told(ill("http_500", breaker_open=True, allowance=1, opens_at=NOW + timedelta(minutes=2)))
    assert (found.tone, found.state) == ("bad", "breaker open")
    assert found.what_to_do.endswith("It heals by itself with the first 2xx; the next probe goes out in 2 min.")


def test_a_disabled_endpoint_says_why_and_that_somebody_must_resume_it() -> None:
    found = told(ill("http_410", status="disabled", reason="it answered 410."))
    assert (found.state, found.last) == ("disabled", "Because: it answered 410. Last answer: 410 Gone")
    assert found.what_to_do.endswith("Resume it once its receiver works.")


def test_failures_from_before_their_kind_was_kept_are_told_without_it() -> None:
    assert (told(ill(None)).last, told(ill(None)).what_to_do) == ("", "")
