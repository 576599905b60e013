"""One call, without any input or output: what to send, what an answer means, how long to wait before the next try.

`Client` and `AsyncClient` differ in how they send and sleep, and in nothing else.
"""

import email.utils
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from webhooks_client.errors import Refused, Unreachable, WebhooksError, refusal

T = TypeVar("T")

# Refusals that say "not now": our own earlier try, whose answer was lost, may still be under way.
_TRY_AGAIN_CODES = frozenset(["idempotency_in_progress", "event_id_in_progress"])


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long a call is tried. Waits grow from `first_seconds` and are chosen at random below that."""

    tries: int = 6
    first_seconds: float = 0.5
    longest_seconds: float = 20.0
    # No wait begins that would end later than this after the first try.
    total_seconds: float = 90.0


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request and what its answer becomes."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    # Seconds for which the platform may hold its answer back on purpose.
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


def get(path: str, read: Callable[[Any], T], *, wait_seconds: float = 0.0, **params: Any) -> Call[T]:
    given = {name: _parameter(value) for name, value in params.items() if value is not None}
    return Call("GET", path, read, params=given, wait_seconds=wait_seconds)


def post(path: str, read: Callable[[Any], T], given: Any, *, idempotency_key: str | None = None) -> Call[T]:
    """With a key of its own, the same on every try, so that the platform does it once."""
    return write("POST", path, read, given, **{"Idempotency-Key": idempotency_key or str(uuid.uuid4())})


def write(method: str, path: str, read: Callable[[Any], T], given: Any, **headers: str) -> Call[T]:
    body = given if isinstance(given, bytes) else encode(given)
    return Call(method, path, read, body=body, headers={"Content-Type": "application/json", **headers})


def encode(value: Any) -> bytes:
    """Strict JSON: NaN and Infinity raise ValueError here instead of being refused far away."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class Tries:
    """The tries of one call. Feed it what happened; it answers with the result, a wait in seconds, or an error."""

    def __init__(self, call: Call[T], retries: Retries, *, clock: Callable[[], float], chance: Callable[[], float]):
        self._call = call
        self._retries = retries
        self._clock = clock
        self._chance = chance
        self._begun = clock()
        self._made = 0

    def answered(self, answer: Answer) -> "Done | Wait":
        self._made += 1
        if 200 <= answer.status < 300:
            return Done(answer)
        if answer.status == 404 and self._call.method == "DELETE" and self._made > 1:
            # Our own earlier try deleted it, and its answer was lost.
            return Done(Answer(204, answer.headers, b""))
        error = refusal(answer.status, _document(answer), retry_after=_retry_after(answer.headers))
        if not _may_pass(error):
            raise error
        return self._wait(error, at_least=error.retry_after or 0.0)

    def unanswered(self, error: Exception) -> "Wait":
        self._made += 1
        failed = Unreachable(f"{self._call.method} {self._call.path}: {error or type(error).__name__}")
        failed.__cause__ = error
        return self._wait(failed, at_least=0.0)

    def _wait(self, error: WebhooksError, *, at_least: float) -> "Wait":
        ceiling = min(self._retries.longest_seconds, self._retries.first_seconds * 2.0 ** (self._made - 1))
        seconds = at_least + ceiling * self._chance()
        spent = self._clock() - self._begun
        if self._made >= self._retries.tries or spent + seconds > self._retries.total_seconds:
            raise error
        return Wait(seconds)


@dataclass(frozen=True, slots=True)
class Done:
    answer: Answer

    def read(self, call: Call[T]) -> T:
        body = self.answer.body
        try:
            return call.read(json.loads(body) if body else None)
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable(f"{call.method} {call.path}: the answer is not the platform's: {body[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


def _may_pass(error: Refused) -> bool:
    return error.status in (408, 429) or error.status >= 500 or error.code in _TRY_AGAIN_CODES


def _document(answer: Answer) -> Mapping[str, Any]:
    """The problem document; something like it for an answer of another kind, such as a proxy's page."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"detail": answer.body[:200].decode(errors="replace").strip()}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
