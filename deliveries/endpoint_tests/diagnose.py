"""What an endpoint's answers to a check-up say about its receiver, in words its owner can act on. Pure.

`check_up` sends, this judges: facts go in, findings come out. What counts as fast is an argument, not the machine's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from deliveries.retry import is_success
from deliveries.send import Answered, Unanswered

Probe = Literal["genuine", "plain", "tampered", "stale", "duplicate"]
Verdict = Literal["pass", "warn", "fail", "unknown"]
Reply = Answered | Unanswered

SENT: dict[Probe, str] = {
    "genuine": "A genuine request: signed as every delivery is, its body with 10.0 and letters beyond ASCII.",
    "plain": "Another genuine request, whose body looks the same after it was parsed and written again.",
    "tampered": "A forged request: one amount in the body was changed after it was signed.",
    "stale": "An old request: signed correctly, with a timestamp of an hour ago.",
    "duplicate": "The genuine request once more, as a retry brings it: same id and body, signed anew.",
}
# The part of a receiver's answer that is worth repeating (characters).
_QUOTED = 200
_SEVERITY: list[Verdict] = ["fail", "warn", "unknown", "pass"]


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    title: str
    verdict: Verdict
    sent: str
    received: str
    meaning: str
    advice: str


def diagnose(replies: Mapping[Probe, Reply], *, fast_ms: int, slow_ms: int, signs_time: bool = True) -> list[Finding]:
    """One finding per question. A probe that is not among the replies was not sent. Where the time is not signed, no
    receiver can tell an old request, and none is asked to."""
    return [
        _accepts_genuine(replies),
        _rejects_tampering(replies),
        *([_rejects_old(replies)] if signs_time else []),
        _takes_duplicates(replies),
        _answers_fast(replies, fast_ms=fast_ms, slow_ms=slow_ms),
    ]


def overall(findings: list[Finding]) -> Verdict:
    """As bad as the worst of them."""
    return min((finding.verdict for finding in findings), key=_SEVERITY.index)


# ── the five questions ───────────────────────────────────────────────────────────────────────────────────────────────


def _accepts_genuine(replies: Mapping[Probe, Reply]) -> Finding:
    def found(verdict: Verdict, meaning: str, advice: str = "") -> Finding:
        return _finding(
            "accepts_genuine", "Accepts genuine requests", verdict, replies, "genuine", meaning=meaning, advice=advice
        )

    reply = replies.get("genuine")
    if not isinstance(reply, Answered):
        return found("fail", "No delivery arrives here.", "Make the URL reachable from the internet, then check again.")
    if accepted(reply):
        return found("pass", "What we send arrives and is accepted.")
    if _busy(reply):
        return found("unknown", "It is too busy to say.", "Check again later.")
    match reply.status_code:
        case code if 300 <= code < 400:
            return found("fail", "Redirects are never followed.", "Set the URL to the place it redirects to.")
        case 404 | 405:
            return found("fail", "Nothing takes a POST at this URL.", "Compare the URL with the receiver's route.")
        case 410:
            return found(
                "fail",
                "410 says that it wants nothing more: a delivery answered so disables the endpoint.",
                "Answer 2xx if it does want events.",
            )
        case code if code >= 500:
            return found("fail", "The receiver broke.", "Its own log says why; the request is a plain JSON POST.")
    return found("fail", *_why_refused(replies.get("plain")))


def _why_refused(plain: Reply | None) -> tuple[str, str]:
    if accepted(plain):
        return (
            "It refuses a genuine request but accepts one that survives parsing: the body is parsed and written again"
            " before it is verified, which changes 10.0 to 10 and letters to escapes.",
            "Verify the raw bytes as they came, and parse them afterwards.",
        )
    return (
        "It refuses genuine requests, so every delivery would fail.",
        "The usual causes: another secret than this endpoint's (one that was rotated away, or belongs to another"
        " endpoint, or lost a character); the body parsed and written again before it is verified; the wrong header or"
        " signature scheme; a clock that is minutes off.",
    )


def _rejects_tampering(replies: Mapping[Probe, Reply]) -> Finding:
    return _rejects(
        replies,
        "tampered",
        name="rejects_tampering",
        title="Rejects tampered requests",
        good="A request that was changed on the way is refused: the signature is verified.",
        bad="It does not verify: it accepts what nobody signed, so anyone who knows the URL can send it events.",
        advice="Verify before you answer: a 200 sent first, with the check in the background, accepts everything.",
    )


def _rejects_old(replies: Mapping[Probe, Reply]) -> Finding:
    unverified = accepted(replies.get("tampered"))
    return _rejects(
        replies,
        "stale",
        name="rejects_old_timestamps",
        title="Rejects old timestamps",
        good="A recorded request cannot be played again later.",
        bad="It does not verify, and so does not look at the time either."
        if unverified
        else "It verifies, but has no tolerance check: whoever records a request can play it again at any time.",
        advice="First verify the signature."
        if unverified
        else "Refuse a signed timestamp that is more than five minutes away from your clock. Ours is fresh on every"
        " attempt, retries and replays included.",
    )


def _rejects(
    replies: Mapping[Probe, Reply], probe: Probe, *, name: str, title: str, good: str, bad: str, advice: str
) -> Finding:
    def found(verdict: Verdict, meaning: str, advice: str = "") -> Finding:
        return _finding(name, title, verdict, replies, probe, meaning=meaning, advice=advice)

    reply = replies.get(probe)
    if not isinstance(reply, Answered) or _busy(reply):
        return found("unknown", "Without an answer, nobody can tell.", "Make it answer first, then check again.")
    if accepted(reply):
        return found("fail", bad, advice)
    if not accepted(replies.get("genuine")):
        return found("unknown", "It refuses genuine requests too, so this says nothing.", "Put that right first.")
    if 400 <= reply.status_code < 500:
        return found("pass", good)
    return found(
        "warn",
        "It was not accepted, but not refused either: that looks like an error nobody caught.",
        "Answer 401 or 400 to what does not verify.",
    )


def _takes_duplicates(replies: Mapping[Probe, Reply]) -> Finding:
    def found(verdict: Verdict, meaning: str, advice: str = "") -> Finding:
        return _finding(
            "takes_duplicates",
            "Takes duplicates calmly",
            verdict,
            replies,
            "duplicate",
            meaning=meaning,
            advice=advice,
        )

    reply = replies.get("duplicate")
    if not isinstance(reply, Answered) or _busy(reply):
        return found("unknown", "Without an answer, nobody can tell.", "Make it answer first, then check again.")
    if not accepted(replies.get("genuine")):
        return found("unknown", "It did not accept the first one.", "Put that right first.")
    if accepted(reply):
        return found(
            "pass",
            "A duplicate is answered like the first one. Whether its work is done only once, we cannot see from here.",
            "Keep the ids you have seen, and skip an event whose id is among them.",
        )
    return found(
        "fail",
        "It answers a duplicate with an error. Deliveries are made at least once: an event it already has would be"
        " retried until it is a dead letter.",
        "Answer 2xx to an id you have seen, and do nothing else with it.",
    )


def _answers_fast(replies: Mapping[Probe, Reply], *, fast_ms: int, slow_ms: int) -> Finding:
    asked: list[Probe] = ["genuine", "duplicate"]
    slowest = max(asked, key=lambda probe: replies[probe].duration_ms if probe in replies else -1)
    reply = replies.get(slowest)

    def found(verdict: Verdict, meaning: str, advice: str = "") -> Finding:
        return _finding(
            "answers_fast", "Answers fast", verdict, replies, slowest, meaning=meaning, advice=advice, quote=False
        )

    advice = "Store the event, answer, and do the work afterwards."
    if isinstance(reply, Unanswered) and reply.error_kind == "read_timeout":
        return found("fail", "It does not answer in time: such a delivery fails and is sent again.", advice)
    if not isinstance(reply, Answered):
        return found("unknown", "Without an answer, nobody can tell.", "Make it answer first, then check again.")
    if reply.duration_ms <= fast_ms:
        return found("pass", "It answers at once, so its deliveries never queue up behind each other.")
    if reply.duration_ms <= slow_ms:
        return found("warn", f"Slower than {fast_ms} ms: a busy hour may queue up behind it.", advice)
    return found("fail", f"Slower than {slow_ms} ms: it is close to timing out, and holds up its own backlog.", advice)


# ── what they share ──────────────────────────────────────────────────────────────────────────────────────────────────


def accepted(reply: Reply | None) -> bool:
    return isinstance(reply, Answered) and is_success(reply.status_code)


def _busy(reply: Answered) -> bool:
    return reply.status_code in (408, 429, 503)


def _finding(
    name: str,
    title: str,
    verdict: Verdict,
    replies: Mapping[Probe, Reply],
    probe: Probe,
    *,
    meaning: str,
    advice: str,
    quote: bool = True,
) -> Finding:
    reply = replies.get(probe)
    sent = SENT[probe] if reply is not None else "Not sent: an earlier request got no answer."
    return Finding(name, title, verdict, sent, _received(reply, quote=quote), meaning, advice)


def _received(reply: Reply | None, *, quote: bool) -> str:
    if reply is None:
        return ""
    if isinstance(reply, Unanswered):
        return f"No answer after {reply.duration_ms} ms. {reply.detail}"
    text = " ".join(reply.body.decode(errors="replace").split())[:_QUOTED] if quote else ""
    return f"{_status(reply.status_code)} after {reply.duration_ms} ms" + (f": {text}" if text else "")


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)
