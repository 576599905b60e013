"""subscriptions/api/parsing.py for any JSON there is: taken exactly as it is meant, or refused with a reason."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from subscriptions.api import parsing
from subscriptions.api.parsing import loads
from subscriptions.api.problems import Problem
from tests.json_strategies import ANY_JSON, GOOD_JSON, GOOD_OBJECTS, exactly

bounded = settings(deadline=None, max_examples=100)


def outcome(raw: bytes) -> Any:
    """The value, or the Problem it is refused with."""
    try:
        return loads(raw)
    except Problem as problem:
        return problem


def is_refusal(found: Any) -> bool:
    return isinstance(found, Problem) and (found.status, found.code) == (400, "invalid_json")


@bounded
@given(GOOD_JSON, st.booleans())
def test_good_json_is_read_as_it_is_meant(value: Any, ascii_only: bool) -> None:
    read = loads(json.dumps(value, ensure_ascii=ascii_only).encode())

    assert exactly(read) == exactly(value)


# Spelled by hand, since no encoder writes a key twice or a number in a way of its own.
NUMBERS = st.sampled_from(
    ["0", "-0", "1", "1.0", "1.10", "1e2", "1E2", "1e-400", "1e400", "18446744073709551615", "18446744073709551616"]
)
STRINGS = st.sampled_from(
    ['""', '"a"', '" "', '"a b"', '"\\u0061"', '"\\""', '"\\u0022"', '"\\u0000"', '"\\\\u0000"', '"é"']
)
BLANKS = st.sampled_from(["", " ", "  ", "\n", "\t", "\r\n "])


def written(parts: list[str], blank: str) -> str:
    return f",{blank}".join(parts)


SPELLED = st.recursive(
    NUMBERS | STRINGS | st.sampled_from(["true", "null", "NaN"]),
    lambda inner: (
        st.builds(lambda items, blank: f"[{written(items, blank)}]", st.lists(inner, max_size=4), BLANKS)
        | st.builds(
            lambda pairs, blank: "{" + written([f"{name}{blank}:{item}" for name, item in pairs], blank) + "}",
            st.lists(st.tuples(STRINGS, inner), max_size=4),
            BLANKS,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=500)
@given(SPELLED)
@example('{"a":1,"a":1}')
@example('{"a":1,"a":"\\u0022\\u0022"}')
@example('{" ":1,"":2}')
def test_however_it_is_spelled_the_quick_reading_is_the_strict_one_or_none(text: str) -> None:
    try:
        strict = exactly(parsing._strictly(text.encode()))
    except Problem:
        strict = None
    quick = parsing._loads_with_orjson(text.encode())

    assert quick is None or exactly(quick) == strict


@bounded
@given(GOOD_OBJECTS, st.booleans())
def test_what_we_would_write_is_read_the_quick_way_also_with_blanks(value: dict[str, Any], indented: bool) -> None:
    raw = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indented else 0)

    assert b"\\u" in raw or exactly(parsing._loads_with_orjson(raw)) == exactly(value)


@bounded
@given(GOOD_JSON)
def test_what_is_read_means_the_same_once_it_is_written_again(value: Any) -> None:
    written = orjson.dumps(loads(json.dumps(value).encode()))

    assert exactly(json.loads(written)) == exactly(value)
    assert orjson.dumps(orjson.loads(written)) == written


@bounded
@given(ANY_JSON, st.booleans())
def test_any_json_is_read_exactly_or_refused(value: Any, ascii_only: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")

    found = outcome(raw)

    assert is_refusal(found) or exactly(json.loads(orjson.dumps(found))) == exactly(value)


@bounded
@given(st.binary(max_size=200))
@example(b"")
@example(b"\xef\xbb\xbf{}")
@example(b"\xff\xfe{\x00}\x00")
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    found = outcome(raw)

    assert is_refusal(found) or exactly(found) == exactly(json.loads(raw))


@bounded
@given(GOOD_OBJECTS, st.floats(0, 1, exclude_max=True))
def test_half_an_object_is_refused(value: dict[str, Any], share: float) -> None:
    raw = json.dumps(value).encode()

    assert is_refusal(outcome(raw[: int(len(raw) * share)]))


@bounded
@given(st.text(st.characters(exclude_categories=["Cs"])), GOOD_JSON, GOOD_JSON)
def test_a_key_that_stands_twice_is_refused(key: str, one: Any, other: Any) -> None:
    name, first, second = (json.dumps(part) for part in (key, one, other))

    assert is_refusal(outcome(f'{{"a": [{{{name}: {first}, {name}: {second}}}]}}'.encode()))


@bounded
@given(st.integers(2**64) | st.integers(max_value=-(2**63) - 1))
def test_an_integer_beyond_64_bits_is_refused(value: int) -> None:
    assert is_refusal(outcome(f'{{"a": {value}}}'.encode()))


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 2**53 + 1, 0])
def test_an_integer_of_64_bits_is_kept_to_the_last_digit(value: int) -> None:
    assert orjson.dumps(loads(str(value).encode())) == str(value).encode()


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_is_read_or_refused_at_any_depth(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    depths = (1, 100, 240, 246, 247, 254, 255, 1000, 5000, 20_000)

    found = {depth: outcome((opening * depth + "1" + closing * depth).encode()) for depth in depths}

    assert [depth for depth in depths if is_refusal(found[depth])] == [247, 254, 255, 1000, 5000, 20_000]
    assert not any(isinstance(found[depth], Problem) for depth in (1, 100, 240, 246))
