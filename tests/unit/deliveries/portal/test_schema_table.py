"""deliveries/portal/schema_table.py: a schema as a table, whatever the schema is."""

from typing import Any

import pytest
from hypothesis import given

from deliveries.portal.schema_table import SchemaRow, rows
from tests.json_strategies import GOOD_JSON


def told(schema: Any) -> list[tuple[str, int, str, bool, str]]:
    return [(row.name, row.depth, row.type, row.is_required, row.rules) for row in rows(schema)]


def test_fields_are_listed_with_their_types_rules_and_depth() -> None:
    schema = {
        "type": "object",
        "required": ["id", "lines"],
        "properties": {
            "id": {"type": "string", "format": "uuid", "description": "Ours."},
            "currency": {"enum": ["EUR", "USD"], "deprecated": True},
            "amount": {"type": ["integer", "null"], "minimum": 0},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1},
        },
        "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 40}}}},
    }
    assert told(schema) == [
        ("id", 0, "string", True, "uuid"),
        ("currency", 0, "one of", False, '"EUR", "USD"'),
        ("amount", 0, "integer or null", False, "≥ 0"),
        ("lines", 0, "array of object", True, "at least 1 items"),
        ("sku", 1, "string", False, "at most 40 characters"),
    ]
    assert [(row.description, row.is_deprecated) for row in rows(schema)][:2] == [("Ours.", False), ("", True)]


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert told(node) == [("next", depth, "object", False, "") for depth in range(5)]
    assert told({"$ref": "#"}) == []


def test_a_large_schema_is_cut() -> None:
    assert len(rows({"properties": {f"f{number}": {} for number in range(1000)}})) == 200


@pytest.mark.parametrize("schema", [None, True, [], 5, {"properties": []}, {"properties": {"a": True}}])
def test_what_is_no_object_has_no_fields_or_plain_ones(schema: Any) -> None:
    assert rows(schema) in ([], [SchemaRow("a", 0, "any", False, False, "", "")])


@given(GOOD_JSON)
def test_whatever_json_a_schema_holds_the_table_is_made(value: Any) -> None:
    keywords = {"properties": {"a": value}, "required": value, "$defs": value, "items": value, "enum": value}
    assert len(rows(keywords)) >= 1
