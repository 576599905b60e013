"""Schemas of event types: checked when they are registered, and then what data is checked against.

`jsonschema_rs` does the checking. It would end the whole process where memory runs out, so nothing is asked of it that
is not bounded: what a schema may cost is judged first (cost.py), patterns run in linear time, nothing is
fetched, and errors are asked for only where they cannot be many.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

import jsonschema_rs
import orjson

from subscriptions.schemas.cost import MAX_PATTERN_BYTES, check_cost
from subscriptions.schemas.graph import SchemaRefused

# An error of `anyOf` or `oneOf` holds those of all its branches, with the values and the places they are about. So many
# parts of such errors take about 40 MB.
_MAX_ERROR_PARTS = 200_000
# A pattern's automaton, made while it is used (bytes).
_PATTERN_CACHE_BYTES = 1 << 18
# A compiled schema takes up to so many times the memory of its text.
_COMPILED_TIMES = 30

__all__ = ["Mismatch", "SchemaCache", "SchemaRefused", "Validator", "compiled"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first thing that is wrong with some data."""

    message: str
    pointer: str


@dataclass(frozen=True, slots=True)
class Validator:
    """A schema that was found cheap enough, compiled. `visits` bounds how many subschemas look at one value."""

    checker: Any
    visits: int
    has_branches: bool
    # About what it takes in memory (bytes).
    size: int

    def is_valid(self, data: Any) -> bool:
        return bool(self.checker.is_valid(data))

    def mismatch(self, data: Any) -> Mismatch | None:
        # Never all errors: their number grows with the branches, and each holds a copy of its part of the data.
        if self.checker.is_valid(data):
            return None
        if self.has_branches and _parts(data, limit=_MAX_ERROR_PARTS // self.visits) * self.visits > _MAX_ERROR_PARTS:
            return Mismatch("The data does not match the schema. It is too large to say where.", "")
        try:
            self.checker.validate(data)
        except jsonschema_rs.ValidationError as error:
            return Mismatch(error.message[:500], "".join(f"/{_escaped(step)}" for step in error.instance_path))
        return Mismatch("The data does not match the schema.", "")


def compiled(schema: Any) -> Validator:
    """Raises `SchemaRefused` for a schema that is none, or that could take too long."""
    cost = check_cost(schema)
    try:
        checker = jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            pattern_options=jsonschema_rs.RegexOptions(
                size_limit=MAX_PATTERN_BYTES, dfa_size_limit=_PATTERN_CACHE_BYTES
            ),
        )
    except ValueError as error:
        raise SchemaRefused(f"Not a usable JSON Schema: {str(error).splitlines()[0][:300]}") from None
    text = orjson.dumps(schema)
    return Validator(
        checker,
        max(1, cost.visits),
        has_branches=b'"anyOf"' in text or b'"oneOf"' in text,
        size=_COMPILED_TIMES * len(text) + 2 * cost.pattern_bytes,
    )


class SchemaCache:
    """Validators by the text of their schema, the least used forgotten first; bounded by the memory they take.

    Keyed by text, so a changed schema is a new entry and no cache needs telling. A refused schema is remembered as
    well: one that was registered before there were such rules is asked for with every event.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, Validator | SchemaRefused] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str) -> Validator:
        with self._lock:
            found = self._kept.get(text)
            if found is not None:
                self._kept.move_to_end(text)
        if found is None:
            found = _compiled_or_refused(text)
            self._keep(text, found)
        if isinstance(found, SchemaRefused):
            raise SchemaRefused(str(found), pointer=found.pointer)
        return found

    def _keep(self, text: str, found: Validator | SchemaRefused) -> None:
        with self._lock:
            if text not in self._kept:
                self._kept[text] = found
                self._bytes += _size(text, found)
            while self._bytes > self._max_bytes and len(self._kept) > 1:
                self._bytes -= _size(*self._kept.popitem(last=False))


def _compiled_or_refused(text: str) -> Validator | SchemaRefused:
    try:
        return compiled(orjson.loads(text))
    except SchemaRefused as refusal:
        return refusal


def _size(text: str, found: Validator | SchemaRefused) -> int:
    return len(text) + (found.size if isinstance(found, Validator) else 0)


def _parts(data: Any, *, limit: int) -> int:
    """How large the errors about some data can be: each value counts for itself and for all values around it."""
    count, waiting = 0, [(data, 1)]
    while waiting and count <= limit:
        value, depth = waiting.pop()
        count += 2 * depth + (len(value) // 64 if isinstance(value, str) else 0)
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        waiting += [(each, depth + 1) for each in inner]
    return count


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _refuse(uri: str) -> Any:
    raise ValueError("References to other documents are not followed.")
