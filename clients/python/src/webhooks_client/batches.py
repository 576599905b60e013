"""Many events in few requests: split within the platform's limits, in order, one result for each event.

No input or output here: `next_call` says what to send, `answered` and `refused` take what came back.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from webhooks_client.errors import Refused, Unreachable
from webhooks_client.protocol import Call, encode, post
from webhooks_client.types import Event, NewEvent

# The platform's defaults. Where it was given smaller ones, a batch that it finds too large is halved.
MAX_EVENTS = 1000
MAX_BYTES = 8 * 1024 * 1024
# Refusals of a whole batch that are about what it holds; one event of it may be at fault. Others (a redirect, a proxy's
# page, a key that was revoked) fit every batch.
_ABOUT_EVENTS = frozenset(["invalid", "invalid_json"])
_BEFORE, _BETWEEN, _AFTER = b'{"events":[', b",", b"]}"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one event. `accepted` and `duplicate` both mean that the platform has it."""

    item: NewEvent | Mapping[str, Any]
    status: Literal["accepted", "duplicate", "refused"]
    event: Event | None = None
    # The problem document of a refusal.
    problem: Mapping[str, Any] | None = None

    @property
    def stored(self) -> bool:
        return self.status != "refused"


@dataclass(frozen=True, slots=True)
class _Item:
    given: NewEvent | Mapping[str, Any]
    # None for what is no JSON.
    body: bytes | None
    why_not: str = ""


class Batches:
    def __init__(
        self,
        items: Iterable[NewEvent | Mapping[str, Any]],
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._source = _split(map(_encoded, items), max_events, max_bytes)
        # What was halved goes before what the source still holds.
        self._waiting: deque[list[_Item]] = deque()
        self._current: list[_Item] = []

    def next_call(self) -> Call[list[dict[str, Any]]] | None:
        """None when every event has its result. Events that are no JSON are left out of the request."""
        batch = self._waiting.popleft() if self._waiting else next(self._source, None)
        if batch is None:
            return None
        self._current = batch
        bodies = [item.body for item in batch if item.body is not None]
        return post("events/batch/", lambda answer: list(answer["results"]), _BEFORE + _BETWEEN.join(bodies) + _AFTER)

    def is_empty(self) -> bool:
        """Whether the current request would hold no event at all: then its answer is an empty list."""
        return all(item.body is None for item in self._current)

    def answered(self, results: list[dict[str, Any]]) -> list[Result]:
        sent = sum(item.body is not None for item in self._current)
        if len(results) != sent:
            raise Unreachable(f"The answer has {len(results)} results for {sent} events: it is not the platform's.")
        answers = iter(results)
        return [_result(item, None if item.body is None else next(answers)) for item in self._current]

    def refused(self, error: Refused) -> list[Result]:
        """Halves a batch that was refused as a whole, nothing of which was stored, down to the one event at fault. That
        is then refused for itself. Raises any other refusal again."""
        if not (error.status == 413 or error.code in _ABOUT_EVENTS):
            raise error
        if len(self._current) == 1:
            return [Result(self._current[0].given, "refused", problem=error.document)]
        middle = len(self._current) // 2
        self._waiting.extendleft([self._current[middle:], self._current[:middle]])
        return []


def _encoded(item: NewEvent | Mapping[str, Any]) -> _Item:
    try:
        return _Item(item, encode(item))
    except (TypeError, ValueError, RecursionError) as error:
        return _Item(item, None, str(error))


def _split(items: Iterator[_Item], max_events: int, max_bytes: int) -> Iterator[list[_Item]]:
    batch: list[_Item] = []
    size = len(_BEFORE) + len(_AFTER)
    room = size
    for item in items:
        length = len(item.body or b"") + len(_BETWEEN)
        if batch and (len(batch) >= max_events or size + length > max_bytes):
            yield batch
            batch, size = [], room
        batch.append(item)
        size += length
    if batch:
        yield batch


def _result(item: _Item, answer: Mapping[str, Any] | None) -> Result:
    if answer is None:
        return Result(item.given, "refused", problem={"code": "not_json", "status": 400, "detail": item.why_not})
    return Result(item.given, answer["status"], event=answer.get("event"), problem=answer.get("problem"))
