"""The OpenAPI document: valid, committed, and about everything that the URL map and the code hold."""

import ast
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml

from deliveries.upkeep.announce import EVENT_TYPES
from subscriptions.api.problem_codes import CODES
from tests.routes import api_routes
from webhooks_platform.api_routes import ROUTES
from webhooks_platform.openapi import yaml
from webhooks_platform.openapi.document import codes_of, document
from webhooks_platform.openapi.index import INDEX

ROOT = Path(__file__).parents[4]
COMMITTED = ROOT / "docs/openapi.json"
PAGE = ROOT / "docs/api.md"
TABLE = re.compile(r"(?<=<!-- routes -->\n).*?(?=<!-- end of routes -->)", re.S)


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield method.upper(), path, operation


def written(text: str, file: Path) -> None:
    """`make api-document` sets the variable."""
    if os.environ.get("WRITE_API_DOCUMENT"):
        file.write_text(text)


def test_the_committed_document_is_the_one_that_is_served() -> None:
    text = json.dumps(document(), ensure_ascii=False, indent=1) + "\n"
    written(text, COMMITTED)
    assert json.loads(COMMITTED.read_text()) == document(), "The API has changed: make api-document"


def test_the_table_of_routes_in_the_docs_names_every_operation() -> None:
    lines = ["| method | path | what it does | roles | scope |", "|---|---|---|---|---|"]
    for method, path, operation in operations():
        roles = ", ".join(operation["x-roles"])
        scope = ", ".join(f"`{scope}`" for scope in operation["x-scopes"])
        lines.append(f"| {method} | `{path}` | {operation['summary']} | {roles} | {scope} |")
    table = "\n".join(lines) + "\n"
    page = PAGE.read_text()
    written(TABLE.sub(lambda _: table, page), PAGE)
    assert TABLE.findall(PAGE.read_text()) == [table], "The API has changed: make api-document"


def test_the_document_is_valid_openapi() -> None:
    assert document()["openapi"].startswith("3.1.")
    # An environment from before it was in locks/dev.txt says that this was skipped.
    pytest.importorskip("openapi_spec_validator").validate(document())


def test_as_yaml_it_says_the_same() -> None:
    assert pyyaml.safe_load(yaml.dump(document())) == document()


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": {}, "b": []},
        [[], [[1]], {}],
        "",
        "a: b # c",
        "yes",
        "1",
        "\n\t\"'",
        "é💥\u2028",
        None,
        True,
        -1.5e9,
    ],
)
def test_yaml_writes_every_value_so_that_it_reads_the_same(value: Any) -> None:
    assert pyyaml.safe_load(yaml.dump({"value": value, "list": [value]})) == {"value": value, "list": [value]}


def test_every_route_and_method_of_the_url_map_is_described() -> None:
    described = {(method, path) for method, path, _ in operations()}
    served = {
        (method, f"/api/v1/{route.template}/" if route.template else "/api/v1/")
        for route in api_routes()
        for method in route.roles
    }
    assert described == served


def test_every_operation_has_a_name_of_its_own_a_summary_and_a_scope_beside_its_roles() -> None:
    found = [operation for _, _, operation in operations()]
    assert len({operation["operationId"] for operation in found}) == len(found)
    assert [each["operationId"] for each in found if not 5 <= len(each["summary"]) <= 120 or not each["x-roles"]] == []
    assert [each["operationId"] for each in found if not each["x-scopes"]] == ["get_index"]


def test_fields_that_a_route_does_not_know_are_refused_by_its_schema_too() -> None:
    open_ones = []
    for name, schema in document()["components"]["schemas"].items():
        if name.endswith("Request"):
            open_ones += [f"{name}{place}" for place in _open_objects(schema)]
    assert open_ones == []


def _open_objects(schema: Any, place: str = "") -> Iterator[str]:
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("additionalProperties") is not False:
            yield place
        for name, inner in schema.items():
            yield from _open_objects(inner, f"{place}/{name}")


def test_a_body_that_is_read_by_hand_has_the_fields_that_the_route_knows() -> None:
    schemas = document()["components"]["schemas"]
    by_hand = {
        operation.body.__name__: (set(view.known_fields(method)), set(operation.body.__annotations__))
        for view in (route.view for route in ROUTES)
        for method, operation in view.operations.items()
        if operation.body
    }
    assert set(by_hand) == {"EventIn", "BatchIn"}
    assert [name for name, (known, described) in by_hand.items() if known != described] == []
    assert set(schemas["EventRequest"]["properties"]) == by_hand["EventIn"][0]


# ── Problem codes ────────────────────────────────────────────────────────────────────────────────────────────────────


def raised() -> Iterator[tuple[int, str]]:
    """Each `Problem(status, "code", …)` of the product."""
    for folder in ("subscriptions", "deliveries", "webhooks_platform"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                is_problem = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem"
                if is_problem and all(isinstance(each, ast.Constant) for each in node.args[:2]):  # type: ignore[attr-defined]
                    yield tuple(each.value for each in node.args[:2])  # type: ignore[attr-defined]


def test_every_code_that_is_raised_is_in_the_list_with_its_status() -> None:
    found = set(raised())
    assert len(found) > 30
    assert {(status, code) for status, code in found if code not in CODES or CODES[code].status != status} == set()


def test_every_code_of_the_list_is_answered_by_some_operation() -> None:
    described = {code for route in (INDEX, *ROUTES) for method in route.view.roles for code in codes_of(route, method)}
    # Of a method that there is not, no operation can tell.
    assert set(CODES) - described == {"method_not_allowed"}


# ── Webhooks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_event_that_the_platform_sends_by_itself_is_among_the_webhooks() -> None:
    assert {*EVENT_TYPES.values(), "webhook.test", "webhook.check_up"} < set(document()["webhooks"])


def test_both_signature_schemes_are_described() -> None:
    text = document()["components"]["parameters"]["webhook-signature"]["description"]
    assert "`timestamped`" in text
    assert "`standard`" in text
