"""What a receiver's answers to a check-up say about it: exact verdicts, and the mistake named."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from deliveries.endpoint_tests.diagnose import SENT, Finding, Probe, Reply, diagnose, overall
from deliveries.send import Answered, Unanswered

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOUND: dict[Probe, int] = {"genuine": 200, "tampered": 401, "stale": 401, "duplicate": 200}


def answered(status_code: int, *, ms: int = 20, body: bytes = b"") -> Answered:
    return Answered(status_code, (), body, False, NOW, ms, None)


def silent(error_kind: Any = "read_timeout", *, ms: int = 10_000) -> Unanswered:
    return Unanswered(error_kind, "The receiver did not finish its answer in time.", NOW, ms, None)


def findings(replies: Mapping[Probe, Reply | int]) -> dict[str, Finding]:
    given = {probe: answered(reply) if isinstance(reply, int) else reply for probe, reply in replies.items()}
    return {finding.name: finding for finding in diagnose(given, fast_ms=1000, slow_ms=5000)}


def verdicts(replies: Mapping[Probe, Reply | int]) -> list[str]:
    """In the order of the questions: genuine, tampered, old, duplicate, fast."""
    return [finding.verdict for finding in findings(replies).values()]


def test_a_sound_receiver_passes_everything() -> None:
    found = findings(SOUND)
    assert [finding.verdict for finding in found.values()] == ["pass"] * 5
    assert list(found) == [
        "accepts_genuine", "rejects_tampering", "rejects_old_timestamps", "takes_duplicates", "answers_fast",
    ]  # fmt: skip
    assert found["rejects_tampering"].sent == SENT["tampered"]
    assert found["rejects_tampering"].received == "401 Unauthorized after 20 ms"
    assert overall(list(found.values())) == "pass"


def test_a_receiver_that_answers_2xx_to_everything_does_not_verify() -> None:
    found = findings({**SOUND, "tampered": 200, "stale": 204})
    assert verdicts({**SOUND, "tampered": 200, "stale": 204}) == ["pass", "fail", "fail", "pass", "pass"]
    assert found["rejects_tampering"].meaning.startswith("It does not verify")
    assert "200 sent first" in found["rejects_tampering"].advice
    assert found["rejects_old_timestamps"].meaning.startswith("It does not verify")
    assert overall(list(found.values())) == "fail"


def test_a_receiver_without_a_tolerance_is_told_so() -> None:
    found = findings({**SOUND, "stale": 200})
    assert verdicts({**SOUND, "stale": 200}) == ["pass", "pass", "fail", "pass", "pass"]
    assert "no tolerance check" in found["rejects_old_timestamps"].meaning
    assert "five minutes" in found["rejects_old_timestamps"].advice


def test_a_receiver_that_refuses_everything_is_told_of_the_secret_and_proves_nothing_else() -> None:
    refuses: dict[Probe, Reply | int] = dict.fromkeys(["genuine", "plain", "tampered", "stale", "duplicate"], 401)
    assert verdicts(refuses) == ["fail", "unknown", "unknown", "unknown", "pass"]
    assert "another secret" in findings(refuses)["accepts_genuine"].advice


def test_a_body_written_again_before_it_is_verified_is_named() -> None:
    found = findings({"genuine": 400, "plain": 200, "tampered": 400, "stale": 400, "duplicate": 400})
    assert "parsed and written again" in found["accepts_genuine"].meaning
    assert found["accepts_genuine"].verdict == "fail"


@pytest.mark.parametrize(
    ("status_code", "verdict", "words"),
    [
        (301, "fail", "Redirects are never followed"),
        (404, "fail", "Nothing takes a POST"),
        (405, "fail", "Nothing takes a POST"),
        (410, "fail", "disables the endpoint"),
        (429, "unknown", "too busy"),
        (500, "fail", "broke"),
        (503, "unknown", "too busy"),
    ],
)
def test_other_answers_to_a_genuine_request_say_what_they_are(status_code: int, verdict: str, words: str) -> None:
    found = findings({**SOUND, "genuine": status_code})["accepts_genuine"]
    assert found.verdict == verdict
    assert words in found.meaning


def test_a_crash_on_what_does_not_verify_is_a_warning() -> None:
    assert verdicts({**SOUND, "tampered": 500, "stale": 302}) == ["pass", "warn", "warn", "pass", "pass"]


def test_an_error_for_a_duplicate_fails() -> None:
    found = findings({**SOUND, "duplicate": 409})
    assert verdicts({**SOUND, "duplicate": 409}) == ["pass", "pass", "pass", "fail", "pass"]
    assert "at least once" in found["takes_duplicates"].meaning


def test_no_answer_at_all_leaves_the_rest_unknown_and_says_it_was_not_sent() -> None:
    found = findings({"genuine": silent("connect_failed", ms=3)})
    assert verdicts({"genuine": silent("connect_failed", ms=3)}) == ["fail", "unknown", "unknown", "unknown", "unknown"]
    assert found["rejects_tampering"].sent == "Not sent: an earlier request got no answer."
    assert found["rejects_tampering"].received == ""
    assert found["accepts_genuine"].received.startswith("No answer after 3 ms.")


@pytest.mark.parametrize(
    ("genuine_ms", "duplicate_ms", "verdict"),
    [(1000, 10, "pass"), (1001, 10, "warn"), (10, 1001, "warn"), (10, 5000, "warn"), (5001, 10, "fail")],
)
def test_the_slower_of_genuine_and_duplicate_says_how_fast_it_is(
    genuine_ms: int, duplicate_ms: int, verdict: str
) -> None:
    replies: dict[Probe, Reply | int] = {
        **SOUND,
        "genuine": answered(200, ms=genuine_ms),
        "duplicate": answered(200, ms=duplicate_ms),
    }
    assert verdicts(replies)[4] == verdict


def test_an_answer_that_does_not_come_in_time_is_slow() -> None:
    assert verdicts({"genuine": silent()}) == ["fail", "unknown", "unknown", "unknown", "fail"]


def test_an_answer_is_quoted_in_one_short_line() -> None:
    found = findings({**SOUND, "tampered": answered(400, body=b"bad\n  signature " + b"x" * 500)})
    assert found["rejects_tampering"].received == "400 Bad Request after 20 ms: bad signature " + "x" * 186
