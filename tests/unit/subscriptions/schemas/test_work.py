"""schemas/work.py and schemas/cost.py: what may be asked of the validator is bounded before it is asked."""

from typing import Any

import pytest

from subscriptions.schemas.compiled import SchemaRefused, compiled
from subscriptions.schemas.cost import check_cost
from subscriptions.schemas.work import CHEAP_VISITS, MAX_EVENT_VISITS, MAX_REQUEST_VISITS, Work, values_in

COSTLY: dict[str, Any] = {"items": {"anyOf": [{"minimum": number} for number in range(900)]}}
CHEAP: dict[str, Any] = {"items": {"anyOf": [{"minimum": number} for number in range(CHEAP_VISITS - 10)]}}


@pytest.mark.parametrize(("names", "patterns"), [(6000, 20), (2000, 60), (6000, 150)])
def test_trying_many_patterns_on_many_names_is_refused(names: int, patterns: int) -> None:
    schema: dict[str, Any] = {
        "properties": {f"n{number}": {} for number in range(names)},
        "patternProperties": {f"^x{number}": {} for number in range(patterns)},
    }
    with pytest.raises(SchemaRefused, match="too intricate"):
        check_cost(schema)


def test_too_many_patterns_are_refused_before_any_is_tried() -> None:
    schema: dict[str, Any] = {
        "properties": {f"n{number}": {} for number in range(6000)},
        "patternProperties": {f"^x{number}": {} for number in range(400)},
    }
    with pytest.raises(SchemaRefused, match="too many subschemas"):
        check_cost(schema)


def test_some_patterns_beside_some_hundred_names_are_taken() -> None:
    schema: dict[str, Any] = {
        "properties": {f"n{number}": {} for number in range(500)},
        "patternProperties": {f"^x{number}": {} for number in range(20)},
    }
    assert check_cost(schema).visits <= 200


def test_an_event_of_many_values_is_not_checked_against_a_costly_schema() -> None:
    costly, most = compiled(COSTLY), MAX_EVENT_VISITS // compiled(COSTLY).visits
    assert Work().allows(costly, [0] * (most - 1))
    assert not Work().allows(costly, [0] * most)


def test_the_events_of_a_request_are_counted_together() -> None:
    costly, work = compiled(COSTLY), Work()
    data = [0] * (MAX_EVENT_VISITS // costly.visits - 1)
    allowed = [work.allows(costly, data) for _ in range(20)]
    assert allowed == sorted(allowed, reverse=True)
    assert allowed.count(True) == MAX_REQUEST_VISITS // MAX_EVENT_VISITS
    assert work.allows(compiled(CHEAP), data)


def test_data_of_a_cheap_schema_is_not_counted() -> None:
    assert Work().allows(compiled(CHEAP), [0] * MAX_EVENT_VISITS)


def test_values_are_counted_at_every_level_and_not_beyond_the_limit() -> None:
    assert values_in({"a": [1, {"b": None}], "c": "x"}, most=100) == 6
    assert values_in([[0] * 10] * 10, most=20) <= 31
