"""A JSON Schema as rows that a person can read: each field with its type, whether it is required, its rules. Pure.

Bounded: a schema may be large, refer to itself, or hold anything that JSON can. What the table leaves out, the schema
itself still says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
from django.utils.translation import gettext, gettext_noop

_DEEPEST = 4
_MOST_ROWS = 200
_MOST_CHOICES = 12
_RULES = {
    "format": "{}",
    "pattern": gettext_noop("matches {}"),
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "exclusiveMinimum": "> {}",
    "exclusiveMaximum": "< {}",
    "minLength": gettext_noop("at least {} characters"),
    "maxLength": gettext_noop("at most {} characters"),
    "minItems": gettext_noop("at least {} items"),
    "maxItems": gettext_noop("at most {} items"),
    "multipleOf": gettext_noop("multiple of {}"),
    "default": gettext_noop("default {}"),
}


@dataclass(frozen=True, slots=True)
class SchemaRow:
    name: str
    depth: int
    type: str
    is_required: bool
    is_deprecated: bool
    description: str
    rules: str


def rows(schema: Any) -> list[SchemaRow]:
    return list(islice(_fields(schema, root=schema, depth=0), _MOST_ROWS))


def _fields(schema: Any, *, root: Any, depth: int) -> Iterator[SchemaRow]:
    """Of an object its properties, each followed by its own."""
    given = _resolved(schema, root)
    properties = given.get("properties")
    if not isinstance(properties, dict) or depth > _DEEPEST:
        return
    needed = given.get("required")
    needed = needed if isinstance(needed, list) else []
    for name, each in properties.items():
        field = _resolved(each, root)
        yield SchemaRow(
            name=str(name),
            depth=depth,
            type=_type(field, root),
            is_required=name in needed,
            is_deprecated=field.get("deprecated") is True,
            description=str(field.get("description") or field.get("title") or ""),
            rules=_rules(field),
        )
        inner = _resolved(field.get("items"), root) if "items" in field else field
        yield from _fields(inner, root=root, depth=depth + 1)


def _type(field: dict[str, Any], root: Any, *, depth: int = 0) -> str:
    if depth > _DEEPEST:
        return "…"
    if "const" in field:
        return _json(field["const"])
    given = field.get("type")
    if isinstance(given, list):
        return f" {gettext('or')} ".join(str(each) for each in given[:_MOST_CHOICES])
    if given == "array":
        inner = _resolved(field.get("items"), root)
        return gettext("array of %(type)s") % {"type": _type(inner, root, depth=depth + 1)} if inner else "array"
    if isinstance(given, str):
        return given
    for name in ("oneOf", "anyOf"):
        if isinstance(field.get(name), list):
            return f" {gettext('or')} ".join(
                _type(_resolved(each, root), root, depth=depth + 1) for each in field[name][:4]
            )
    if "enum" in field:
        return gettext("one of")
    return "object" if "properties" in field else "any"


def _rules(field: dict[str, Any]) -> str:
    told = []
    if isinstance(field.get("enum"), list):
        more = " …" if len(field["enum"]) > _MOST_CHOICES else ""
        told.append(", ".join(_json(each) for each in field["enum"][:_MOST_CHOICES]) + more)
    told += [gettext(form).format(_plain(field[name])) for name, form in _RULES.items() if name in field]
    return "; ".join(told)


def _resolved(schema: Any, root: Any) -> dict[str, Any]:
    """What a reference inside the same document leads to; a few steps, since they may go in a circle."""
    for _ in range(5):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        found = root
        for part in reference.removeprefix("#").strip("/").split("/"):
            step = part.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) and step else found
        schema = found
    return {}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:80]}…"
