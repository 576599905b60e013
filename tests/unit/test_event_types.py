"""subscriptions/event_types.py: names, the patterns endpoints ask by, and schemas that reach for nothing."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions.event_types import SchemaInvalid, check_schemas, compiled, is_name, is_pattern, patterns_for

SEGMENTS = st.text("abcXYZ019_-", min_size=1, max_size=8)
NAMES = st.lists(SEGMENTS, min_size=1, max_size=6).map(".".join)


@pytest.mark.parametrize("name", ["invoice", "invoice.paid", "a.b.c.d", "Invoice_2-x.PAID", "9", "-", "a" * 255])
def test_dot_separated_words_are_names_and_patterns(name: str) -> None:
    assert is_name(name)
    assert is_pattern(name)


@pytest.mark.parametrize("pattern", ["*", "invoice.*", "invoice.paid.*"])
def test_a_star_at_the_end_is_a_pattern_and_no_name(pattern: str) -> None:
    assert is_pattern(pattern)
    assert not is_name(pattern)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "invoice.",
        ".paid",
        "invoice..paid",
        "invoice paid",
        "invoice.paid\n",
        "invoice/paid",
        "rechnung.bezählt",
        "**",
        "*.*",
        "*.paid",
        "invoice.*.paid",
        "invoice.p*",
        "invoice*",
        "a" * 256,
        "a" * 254 + ".*",
    ],
)
def test_anything_else_is_neither(text: str) -> None:
    assert not is_name(text)
    assert not is_pattern(text)


def test_a_name_is_matched_by_itself_by_each_of_its_families_and_by_the_star() -> None:
    assert patterns_for("a.b.c") == ("a.b.c", "a.b.*", "a.*", "*")
    assert patterns_for("a") == ("a", "*")


@settings(deadline=None)
@given(NAMES)
def test_every_pattern_for_a_name_is_one_an_endpoint_may_ask_by(name: str) -> None:
    assert is_name(name)
    assert all(is_pattern(pattern) for pattern in patterns_for(name))


@settings(deadline=None)
@given(NAMES, NAMES)
def test_a_family_takes_in_exactly_the_names_that_begin_with_it(family: str, name: str) -> None:
    assert (f"{family}.*" in patterns_for(name)) == name.startswith(f"{family}.")


def test_a_schema_that_refers_to_another_document_is_refused_and_fetches_nothing() -> None:
    with pytest.raises(ValueError, match="not followed"):
        compiled({"$ref": "http://127.0.0.1:9/schema.json"})


def test_a_schemas_pattern_that_would_take_for_ever_is_judged_at_once() -> None:
    validator = compiled({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})

    assert not validator.is_valid({"a": "a" * 5000 + "!"})


def chain(length: int, name: str = "#/$defs/a%d", key: str = "$ref", **names: str) -> dict[str, Any]:
    """Each names the next one twice."""
    links = {
        f"a{n}": {"allOf": [{key: name % (n + 1)}] * 2, **{each: text % n for each, text in names.items()}}
        for n in range(length)
    }
    last = {"type": "object", **{each: text % length for each, text in names.items()}}
    return {"$ref": name % 0, "$defs": {**links, f"a{length}": last}}


ANCHORED: dict[str, Any] = {"name": "#a%d", "$anchor": "a%d"}
WITH_IDS: dict[str, Any] = {"name": "urn:a%d", "$id": "urn:a%d"}
DYNAMIC: dict[str, Any] = {"name": "#a%d", "key": "$dynamicRef", "$dynamicAnchor": "a%d"}


@pytest.mark.parametrize("spelling", [ANCHORED, WITH_IDS, DYNAMIC])
def test_references_of_any_spelling_are_followed(spelling: dict[str, Any]) -> None:
    check_schemas([{"schema": chain(6, **spelling), "example": {}}])
    with pytest.raises(SchemaInvalid, match="too often"):
        check_schemas([{"schema": chain(40, **spelling), "example": {}}])


def test_a_model_of_thirty_types_that_name_each_other_is_an_ordinary_schema() -> None:
    """References under different names are about different parts of the data, and cost nothing together."""
    dice = random.Random(7)
    types = {
        f"t{n}": {
            "type": "object",
            "properties": {f"s{k}": {"type": "string"} for k in range(6)}
            | {f"r{k}": {"$ref": f"#/$defs/t{dice.randrange(30)}"} for k in range(3)},
        }
        for n in range(30)
    }
    check_schemas([{"schema": {"$defs": types, "$ref": "#/$defs/t0"}, "example": {"s1": "x"}}])


def test_references_that_double_with_every_step_are_refused_before_anything_is_checked_with_them() -> None:
    check_schemas([{"schema": chain(8), "example": {}}])
    with pytest.raises(SchemaInvalid, match="too often"):
        check_schemas([{"schema": chain(40), "example": {}}])
    with pytest.raises(SchemaInvalid, match="too often"):
        check_schemas([{"schema": {"$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(5000)}}}])


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"child": {"$ref": "#"}}},
        {"$defs": {"a/b": {"$ref": "#/$defs/c~1d"}, "c/d": {"$ref": "#/$defs/a~1b"}}, "$ref": "#/$defs/a~1b"},
        {"allOf": [{"type": "object"}, {"$ref": "#/allOf/0"}]},
        {"const": {"$ref": 17}},
    ],
)
def test_a_schema_may_lead_back_to_itself(schema: dict[str, Any]) -> None:
    check_schemas([{"schema": schema, "example": {"$ref": 17}}])
