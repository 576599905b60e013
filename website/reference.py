"""The page of the API's routes, from docs/openapi.json."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
METHODS = ("get", "post", "put", "patch", "delete")


def page() -> str:
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    head = (
        "# API reference\n\nEvery route, from `docs/openapi.json`. A running deployment has the same at `/api/docs/`, "
        "with every field and example to unfold.\n"
    )
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                by_tag.setdefault(item[method]["tags"][0], []).append(_route(document, path, method, item[method]))
    return head + "".join(f"\n## {tag}\n" + "".join(routes) for tag, routes in by_tag.items() if routes)


def _route(document: dict[str, Any], path: str, method: str, given: dict[str, Any]) -> str:
    parts = [f"\n### {given['summary']}\n\n`{method.upper()} {path}`\n", f"\n{given.get('description', '')}\n"]
    parameters = [_resolved(document, each) for each in given.get("parameters", [])]
    rows = [_row(document, each["name"], each.get("schema", {}), each.get("description", "")) for each in parameters]
    if rows:
        parts.append("\n| parameter | type | meaning |\n|---|---|---|\n" + "".join(rows))
    if rows := list(_fields(document, given.get("requestBody", {}))):
        parts.append("\n| field | type | meaning |\n|---|---|---|\n" + "".join(rows))
    good = ", ".join(f"`{status}`" for status in given["responses"] if status < "400")
    codes = ", ".join(f"`{code}`" for code in given.get("x-problem-codes", []))
    parts.append(f"\nAnswers {good}; problems: {codes}.\n")
    return "".join(parts)


def _fields(document: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
    content = _resolved(document, body).get("content", {})
    schema = _resolved(document, content.get("application/json", {}).get("schema", {}))
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        yield _row(document, name, field, field.get("description", ""), required=name in required)


def _row(document: dict[str, Any], name: str, schema: dict[str, Any], meaning: str, *, required: bool = False) -> str:
    kind = _kind(document, schema) + (", required" if required else "")
    return f"| `{name}` | {kind} | {(meaning or schema.get('description', '')).replace('|', chr(92) + '|')} |\n"


def _kind(document: dict[str, Any], schema: dict[str, Any]) -> str:
    schema = _resolved(document, schema)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(document, each) for each in schema[word]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kinds = schema.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _resolved(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        found: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node
