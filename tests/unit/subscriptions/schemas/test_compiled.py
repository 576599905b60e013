"""subscriptions/schemas/compiled.py: what is taken as a schema of an event type, and what checking data costs (S13)."""

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions.event_types import SchemaInvalid, check_schemas
from subscriptions.schemas.compiled import SchemaCache, SchemaRefused, compiled
from subscriptions.schemas.cost import check_cost
from tests.hostile_schemas import verdicts

Json = dict[str, Any]
ROOT: Json = {"$ref": "#"}
OF_THE_ISSUE: Json = {"properties": {"a": {"anyOf": [ROOT, ROOT, ROOT], "required": ["zz"]}}}


def nested(depth: int, *, leaf: Any = None) -> Any:
    data = leaf if leaf is not None else {}
    for _ in range(depth):
        data = {"a": data}
    return data


def below(inner: Any, **more: Any) -> Json:
    return {"properties": {"a": inner}, **more}


def chain(length: int, name: str = "#/$defs/a%d", key: str = "$ref", **names: str) -> Json:
    """Each names the next one twice."""
    links = {
        f"a{n}": {"allOf": [{key: name % (n + 1)}] * 2, **{each: text % n for each, text in names.items()}}
        for n in range(length)
    }
    last = {"type": "object", **{each: text % length for each, text in names.items()}}
    return {"$ref": name % 0, "$defs": {**links, f"a{length}": last}}


def levels(make: Any, count: int = 30) -> Json:
    """A schema for each level of nested data, without a reference back."""
    each = {f"x{n}": make({"$ref": f"#/$defs/x{n + 1}"}) for n in range(count)}
    return {"$ref": "#/$defs/x0", "$defs": {**each, f"x{count}": {}}}


INTEGERS: Json = {"type": "integer"}
OBJECT: Json = {"type": "object"}

REFUSED: dict[str, tuple[Json, Any]] = {
    "the issue's": (OF_THE_ISSUE, nested(12)),
    "anyOf, all of which fail": ({"anyOf": [below(ROOT, required=["q"])] * 3}, nested(60)),
    "allOf": ({"properties": {"a": {"allOf": [ROOT, ROOT]}}}, nested(60)),
    "oneOf": ({"oneOf": [below(ROOT, required=["q"]), below(ROOT)]}, nested(60)),
    "not": (below({"not": {"not": {"allOf": [ROOT, ROOT]}}}), nested(60)),
    "if": ({"if": below(ROOT), "then": below(ROOT), "else": below(ROOT)}, nested(60)),
    "dependentSchemas": ({"dependentSchemas": {"a": below(ROOT), "b": below(ROOT)}}, nested(60)),
    "two at a time": ({"allOf": [below(ROOT), {"additionalProperties": ROOT}]}, nested(60)),
    "patternProperties": ({"patternProperties": {"a": ROOT, ".": ROOT}}, nested(60)),
    "items and contains": ({"items": ROOT, "contains": ROOT}, []),
    "dynamic": ({"$dynamicAnchor": "n", **below({"allOf": [{"$dynamicRef": "#n"}] * 2})}, nested(60)),
    "recursive": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            **below({"allOf": [{"$recursiveRef": "#"}] * 2}),
        },
        nested(60),
    ),
    "by id": ({"$id": "https://x.test/s", **below({"allOf": [{"$ref": "https://x.test/s"}] * 2})}, nested(60)),
    "by anchor": ({"$anchor": "s", **below({"allOf": [{"$ref": "#s"}] * 2})}, nested(60)),
    "a way round": (
        {
            "$defs": {"x": below({"allOf": [{"$ref": "#/$defs/y"}] * 2}), "y": below({"$ref": "#/$defs/x"})},
            "$ref": "#/$defs/x",
        },
        nested(60),
    ),
    "level by level": (levels(lambda next: below({"allOf": [next, next]}, type="object")), nested(30)),
    "unevaluatedProperties": (
        levels(lambda next: {"anyOf": [below(next)], "unevaluatedProperties": INTEGERS}),
        nested(30),
    ),
    "unevaluatedProperties twice": (
        levels(
            lambda next: {"allOf": [{"allOf": [below(next)], "unevaluatedProperties": {}}], "unevaluatedProperties": {}}
        ),
        nested(30),
    ),
    "a tower": (chain(40), {}),
    "a tall tower": (
        {"$ref": "#/$defs/a0", "$defs": {**{f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(5000)}, "a5000": {}}},
        {},
    ),
    "itself": (ROOT, {}),
    "each other": ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, {}),
    "everybody each other": (
        {
            "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{k}"} for k in range(12)]} for n in range(12)},
            "$ref": "#/$defs/a0",
        },
        {},
    ),
    "an enum of lists": ({"items": {"enum": [[n] for n in range(5000)]}}, [[4999]] * 30_000),
    "many branches": ({"items": {"anyOf": [{"minimum": n} for n in range(2000)]}}, [-1] * 60_000),
    "many dependencies": ({"items": {"dependentRequired": {f"x{n}": ["a"] for n in range(2000)}}}, [{"a": 1}] * 20_000),
    "a large repetition": ({"pattern": "a{1000000}"}, "a"),
    "repetitions of repetitions": ({"pattern": "(((((a{9}){9}){9}){9}){9}){9}"}, "a"),
    "a look-around": ({"pattern": "^(?=a+)+$"}, "a"),
    "many patterns": ({"properties": {f"x{n}": {"pattern": f"[^ ]{{{n}}}"} for n in range(1, 400)}}, {}),
    "unique lists in unique lists": ({"allOf": [{"uniqueItems": True}] * 4, "items": ROOT}, []),
    "too many subschemas": ({"properties": {f"x{n}": {"type": "string"} for n in range(11_000)}}, {}),
    "another document": ({"$ref": "http://127.0.0.1:9/schema.json"}, {}),
    "another dialect": ({"$schema": "http://127.0.0.1:9/dialect"}, {}),
    "the schema of schemas": ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {}),
    "nothing": ({"$ref": "#/$defs/none"}, {}),
}

BOUNDED: dict[str, tuple[Json, Any]] = {
    "a pattern that backtracks elsewhere": (below({"pattern": "^(a+)+$"}), {"a": "a" * 200_000 + "!"}),
    "a pattern of many states": (below({"pattern": "[ab]*a[ab]{1200}c"}), {"a": "ab" * 100_000}),
    "errors of all branches": ({"anyOf": [{"items": {"type": "string"}}] * 4}, [1] * 120_000),
    "errors of nested branches": (
        {"items": {"anyOf": [{"items": {"anyOf": [{"type": "string"}] * 9}}] * 9}},
        [[1] * 99] * 99,
    ),
    "as many branches as there may be": ({"items": {"allOf": [INTEGERS] * 900}}, [1] * 100_000),
    "unique lists": ({"items": ROOT, "uniqueItems": True}, [[n] for n in range(30_000)]),
    "a large enum": ({"items": {"enum": [f"x{n}" for n in range(15_000)]}}, ["x14999"] * 25_000),
    "deep data": (below(ROOT), nested(240, leaf=1)),
    "formats": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": {"format": "regex"}},
        ["(((((a{99}){99}){99}){99}){99})"] * 5000,
    ),
}


def test_what_could_take_too_long_or_too_much_memory_is_refused_when_it_is_registered() -> None:
    """One process, 1 GiB: any of these would end it, or keep it busy until its time is up."""
    found = verdicts(list(REFUSED.values()))

    assert [name for name, verdict in zip(REFUSED, found, strict=True) if verdict != "refused"] == []


def test_what_is_taken_stays_within_memory_and_time_whatever_the_data() -> None:
    found = verdicts(list(BOUNDED.values()))

    assert dict(zip(BOUNDED, found, strict=True)) == {
        "a pattern that backtracks elsewhere": "invalid",
        "a pattern of many states": "invalid",
        "errors of all branches": "invalid",
        "errors of nested branches": "invalid",
        "as many branches as there may be": "valid",
        "unique lists": "valid",
        "a large enum": "valid",
        "deep data": "valid",
        "formats": "valid",
    }


def test_a_refusal_says_where_and_what_to_do() -> None:
    with pytest.raises(SchemaInvalid, match="Take references out of allOf, anyOf") as refusal:
        check_schemas([{}, {"schema": OF_THE_ISSUE, "example": {}}])
    assert refusal.value.pointer == "/versions/1/schema/properties/a"
    with pytest.raises(SchemaInvalid, match="lower its repetition counts") as refusal:
        check_schemas([{"schema": below({"pattern": "a{1000000}"})}])
    assert refusal.value.pointer == "/versions/0/schema/properties/a/pattern"
    with pytest.raises(SchemaInvalid, match="copy what it names into") as refusal:
        check_schemas([{"schema": below({"$ref": "https://x.test/y.json"})}])
    assert refusal.value.pointer == "/versions/0/schema/properties/a/$ref"
    with pytest.raises(SchemaInvalid, match=r"does not match the schema: .*integer") as refusal:
        check_schemas([{"schema": below(INTEGERS), "example": {"a": "x"}}])
    assert refusal.value.pointer == "/versions/0/example/a"


def test_the_first_mismatch_is_reported_with_its_place() -> None:
    found = compiled(below({"items": {"oneOf": [INTEGERS, {"type": "string"}]}})).mismatch({"a": [1, "x", None]})

    assert found is not None
    assert found.pointer == "/a/2"
    assert "oneOf" in found.message


def test_data_with_more_errors_than_are_worth_their_memory_is_refused_without_saying_where() -> None:
    found = compiled({"anyOf": [{"items": {"type": "string"}}] * 9}).mismatch([1] * 50_000)

    assert found is not None
    assert (found.pointer, found.message) == ("", "The data does not match the schema. It is too large to say where.")


ANCHORED: Json = {"name": "#a%d", "$anchor": "a%d"}
WITH_IDS: Json = {"name": "urn:a%d", "$id": "urn:a%d"}
DYNAMIC: Json = {"name": "#a%d", "key": "$dynamicRef", "$dynamicAnchor": "a%d"}


@pytest.mark.parametrize("spelling", [{}, ANCHORED, WITH_IDS, DYNAMIC])
def test_references_of_any_spelling_are_followed(spelling: Json) -> None:
    check_schemas([{"schema": chain(6, **spelling), "example": {}}])
    with pytest.raises(SchemaInvalid, match="too many subschemas"):
        check_schemas([{"schema": chain(40, **spelling), "example": {}}])


def thirty_types() -> Json:
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
    return {"$defs": types, "$ref": "#/$defs/t0"}


def variant(name: str, **properties: Any) -> Json:
    return {"type": "object", "properties": {"type": {"const": name}, **properties}, "required": ["type", *properties]}


EVENT_ID: Json = {"type": "string", "pattern": "^evt_[0-9a-hjkmnp-tv-z]{26}$"}
MONEY: Json = {
    "type": "object",
    "properties": {
        "amount": {"type": "string", "pattern": r"^-?\d{1,12}\.\d{2}$"},
        "currency": {"enum": ["EUR", "USD"]},
    },
    "required": ["amount", "currency"],
    "additionalProperties": False,
}

ORDINARY: dict[str, tuple[Json, Any]] = {
    "an empty one": ({}, {"x": 1}),
    "a linked list": (
        {"$defs": {"n": {"properties": {"value": {}, "next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
        {"value": 1, "next": {"value": 2}},
    ),
    "a tree": (
        {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": ROOT}}},
        {"name": "a", "children": [{"name": "b", "children": []}]},
    ),
    "a binary tree": (
        {"properties": {"left": ROOT, "right": ROOT, "key": INTEGERS}},
        {"left": {"key": 1}, "right": {}},
    ),
    "a tree that may be null": (
        {"properties": {"next": {"anyOf": [{"type": "null"}, ROOT]}}},
        {"next": {"next": None}},
    ),
    "a union told apart by a constant": (
        {"oneOf": [variant(f"t{n}", id=EVENT_ID, total=MONEY) for n in range(50)]},
        {"type": "t7", "id": "evt_01hzy3v7k4q9m2n8p5r6s7t8vw", "total": {"amount": "12.50", "currency": "EUR"}},
    ),
    "a discriminator with if and then": (
        {
            "properties": {"type": {"enum": ["a", "b"]}},
            "required": ["type"],
            "allOf": [{"if": {"properties": {"type": {"const": each}}}, "then": {"required": [each]}} for each in "ab"],
        },
        {"type": "a", "a": 1},
    ),
    "shared parts": (
        {"$defs": {"money": MONEY}, "properties": {n: {"$ref": "#/$defs/money"} for n in ("net", "tax", "gross")}},
        {"net": {"amount": "1.00", "currency": "USD"}},
    ),
    "inheritance, closed": (
        {
            "$defs": {"base": {"properties": {"id": EVENT_ID}}},
            "allOf": [{"$ref": "#/$defs/base"}],
            "properties": {"lines": {"type": "array", "items": MONEY}},
            "unevaluatedProperties": False,
        },
        {"id": "evt_01hzy3v7k4q9m2n8p5r6s7t8vw", "lines": []},
    ),
    "dates, mails and names": (
        {
            "properties": {
                "at": {
                    "type": "string",
                    "format": "date-time",
                    "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$",
                },
                "mail": {"type": "string", "pattern": r"^[\w.+-]{1,64}@[\w-]{1,63}(\.[\w-]{1,63}){1,8}$"},
                "name": {"type": "string", "pattern": r"^[^\s].{0,254}$", "maxLength": 255},
            }
        },
        {"at": "2026-01-31T12:00:00Z", "mail": "a.b@example.com", "name": "Zoë"},
    ),
    "tags": (
        {"properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 50}}},
        {"tags": ["a", "b"]},
    ),
    "free metadata": (
        {
            "properties": {
                "metadata": {
                    "type": "object",
                    "propertyNames": {"pattern": "^[a-z_]{1,40}$"},
                    "additionalProperties": {"type": ["string", "number", "boolean"]},
                    "maxProperties": 50,
                }
            }
        },
        {"metadata": {"a": 1}},
    ),
    "vendor extensions": (
        {"properties": {"child": ROOT}, "patternProperties": {"^x-": {}}, "additionalProperties": False},
        {"child": {"x-a": 1}},
    ),
    "a tuple": ({"properties": {"at": {"prefixItems": [{"type": "number"}] * 2, "items": False}}}, {"at": [1, 2.5]}),
    "an old draft": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "https://x.test/s#",
            "type": "object",
            "definitions": {"p": {"minimum": 0}},
            "properties": {"n": {"$ref": "#/definitions/p"}},
        },
        {"n": 1},
    ),
    "an API's own names": (
        {
            "$ref": "#/components/schemas/Order",
            "components": {
                "schemas": {
                    "Order": {"properties": {"lines": {"items": {"$ref": "#/components/schemas/Line"}}}},
                    "Line": {"required": ["sku"]},
                }
            },
        },
        {"lines": [{"sku": "x"}]},
    ),
    "a bundle": (
        {
            "$id": "https://x.test/order",
            "properties": {"buyer": {"$ref": "person"}},
            "$defs": {
                "p": {
                    "$id": "https://x.test/person",
                    "properties": {"name": {"$ref": "#/$defs/n"}},
                    "$defs": {"n": {"type": "string"}},
                }
            },
        },
        {"buyer": {"name": "Ada"}},
    ),
    "an extensible tree": (
        {"$dynamicAnchor": "node", "properties": {"children": {"items": {"$dynamicRef": "#node"}}}},
        {"children": [{"children": []}]},
    ),
    "thirty types": (thirty_types(), {"s1": "x"}),
    "no reference, as a constant": ({"const": {"$ref": 17}}, {"$ref": 17}),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_schemas_are_taken(name: str) -> None:
    schema, example = ORDINARY[name]

    check_schemas([{"schema": schema, "example": example}])


def test_validators_are_kept_by_the_memory_they_take() -> None:
    cache = SchemaCache(max_bytes=100_000)
    texts = [orjson.dumps({"title": str(n) * 1000}).decode() for n in range(9)]
    first = cache.get(texts[0])
    assert cache.get(texts[0]) is first
    for text in texts[1:]:
        cache.get(text)
    assert cache.get(texts[0]) is not first
    for _ in range(2):
        with pytest.raises(SchemaRefused, match="too many subschemas"):
            cache.get(orjson.dumps(OF_THE_ISSUE).decode())


# ── the bound holds, counted ─────────────────────────────────────────────────────────────────────────────────────────

NAMES = st.sampled_from(["a", "b"])
REFERENCES = st.sampled_from(["#", "#/$defs/x", "#/$defs/y"]).map(lambda to: {"$ref": to})


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.sampled_from(["allOf", "anyOf", "oneOf", "prefixItems"]).flatmap(
            lambda key: several.map(lambda all: {key: all})
        ),
        st.sampled_from(["not", "if", "then", "items", "contains", "additionalProperties"]).flatmap(
            lambda key: inner.map(lambda one: {key: one})
        ),
        st.dictionaries(NAMES, inner, min_size=1).map(lambda all: {"properties": all}),
        st.dictionaries(NAMES, inner, min_size=1).map(lambda all: {"patternProperties": all, "required": ["b"]}),
    )


SCHEMAS = st.recursive(
    st.one_of(REFERENCES, st.sampled_from([{"type": "object"}, {"required": ["b"]}, True])), _combined
)
ROOTS = st.builds(lambda root, x, y: {**root, "$defs": {"x": x, "y": y}}, _combined(SCHEMAS), SCHEMAS, SCHEMAS)
DATA = st.recursive(
    st.sampled_from([1, "s", None]),
    lambda inner: st.one_of(st.dictionaries(NAMES, inner, max_size=2), st.lists(inner, max_size=2)),
    max_leaves=12,
)


def visits(root: Json, schema: Any, data: Any) -> int:
    """How many subschemas look at the data and its parts, when nothing is cut short."""
    if not isinstance(schema, dict):
        return 1
    here = [*(schema[key] for key in ("not", "if", "then") if key in schema)]
    here += [each for key in ("allOf", "anyOf", "oneOf") for each in schema.get(key, [])]
    if "$ref" in schema:
        here.append(root if schema["$ref"] == "#" else root["$defs"][schema["$ref"][-1]])
    parts: list[tuple[Any, Any]] = []
    if isinstance(data, dict):
        for name, value in data.items():
            patterns = [each for pattern, each in schema.get("patternProperties", {}).items() if pattern in name]
            named = [schema["properties"][name]] if name in schema.get("properties", {}) else []
            others = [] if named or patterns else [schema[key] for key in ("additionalProperties",) if key in schema]
            parts += [(each, value) for each in [*patterns, *named, *others]]
    if isinstance(data, list):
        first = schema.get("prefixItems", [])
        parts += list(zip(first, data, strict=False))
        parts += [(schema["items"], value) for value in data[len(first) :] if "items" in schema]
        parts += [(schema["contains"], value) for value in data if "contains" in schema]
    return 1 + sum(visits(root, each, data) for each in here) + sum(visits(root, *part) for part in parts)


def values(data: Any) -> int:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + sum(values(each) for each in inner)


@settings(deadline=None, max_examples=300)
@given(ROOTS, DATA)
def test_no_value_is_looked_at_more_often_than_was_reckoned(schema: Json, data: Any) -> None:
    try:
        cost = check_cost(schema)
    except SchemaRefused:
        return
    # A reference alone and what it names count as one.
    assert visits(schema, schema, data) <= 2 * cost.visits * values(data)


@settings(deadline=None, max_examples=1)
@given(st.lists(ROOTS, min_size=60, max_size=60), st.lists(DATA, min_size=60, max_size=60))
def test_random_schemas_are_refused_or_checked_within_memory_and_time(schemas: list[Json], data: list[Any]) -> None:
    deep = [{"a": {"b": each}} for each in data] + [nested(200, leaf=each) for each in data[:30]]

    found = verdicts([(schema, each) for schema, each in zip(schemas * 2, deep, strict=False)])

    assert set(found) <= {"refused", "valid", "invalid"}
