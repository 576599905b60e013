"""States, statuses and kinds are written once, in the models' enums; statements take them from sql/fragments.py."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deliveries.health.models import NoticeKind
from deliveries.replaying.models import ReplayStatus
from deliveries.sql import fragments
from deliveries.states import DeliveryState
from subscriptions.models import EndpointStatus

ROOT = Path(__file__).parents[4]
PRODUCT = ("deliveries", "subscriptions", "webhooks_platform")
ENUMS = (DeliveryState, NoticeKind, ReplayStatus, EndpointStatus)
# Not `done`, which other things may be as well.
VALUES = {value for enum in ENUMS for value in enum.values} - {ReplayStatus.DONE}
COLUMNS = {"state", "status", "kind"}
# Other work is under way in these; each leaves this list with its last literal.
NOT_YET = {
    "deliveries/accepting/insert.py",
    "deliveries/portal/deliveries.py",
    "deliveries/portal/endpoints.py",
    "deliveries/portal/words.py",
    "deliveries/statistics/gauges.py",
}
IN_SQL = re.compile(rf"(?:state|status|kind)\b[^\n]*'(?:{'|'.join(sorted(VALUES))})'")


def literals(source: str) -> Iterator[str]:
    """States written as text: in a statement, in a comparison with a column, or as its value."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\b[A-Z]{4,}\b", node.value):
            yield from IN_SQL.findall(node.value)
        elif isinstance(node, ast.Compare) and _name(node.left) in COLUMNS:
            yield from (text for side in node.comparators for text in _texts(side) if text in VALUES)
        elif isinstance(node, ast.keyword) and node.arg and node.arg.split("__")[0] in COLUMNS:
            yield from (text for text in _texts(node.value) if text in VALUES)


def _name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _texts(node: ast.AST) -> list[str]:
    found = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
    return [value for value in found if isinstance(value, str)]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("X = \"SELECT FROM deliveries_delivery WHERE state = 'dead'\"", 1),
        ("X = f\"UPDATE x SET state = 'pending', a = {a}\"", 1),
        ('found = row.state == "dead"', 1),
        ('found = row.state in ("dead", "delivered")', 2),
        ('rows.filter(status="active")', 1),
        ('rows.filter(state__in=["pending"])', 1),
        ("rows.filter(state=DeliveryState.DEAD)", 0),
        ('parts = [("delivered", 1)]', 0),
        ("X = f\"SELECT FROM x WHERE state = {DEAD} AND dead_reason = 'expired'\"", 0),
    ],
)
def test_the_check_finds_a_state_that_is_written_as_text(source: str, count: int) -> None:
    assert len(list(literals(source))) == count


def test_no_state_is_written_as_text_outside_the_models() -> None:
    paths = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py") if "migrations" not in path.parts]
    named = {str(path.relative_to(ROOT)): list(literals(path.read_text())) for path in paths}
    assert {path: found for path, found in named.items() if found and path not in NOT_YET} == {}


def test_statements_spell_states_as_the_enums_do() -> None:
    assert fragments.LIVE == "('pending', 'in_flight')"
    assert fragments.FINISHED == "('delivered', 'dead')"
    assert {*DeliveryState.values} == {"pending", "in_flight", "delivered", "dead"}


def test_a_condition_names_its_row_where_a_statement_has_several() -> None:
    assert fragments.is_claimable() == "state = 'pending' AND NOT blocked"
    assert fragments.is_claimable("later") == "later.state = 'pending' AND NOT later.blocked"
