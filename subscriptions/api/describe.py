"""How views declare what they take and answer, and the JSON Schema of it. Read by webhooks_platform/openapi.

What goes out is a TypedDict: mypy holds the function that shows a resource to it, and its schema is made from it. What
comes in is a serializer, or a TypedDict where a view reads its body by hand. Inside `Annotated`, a text is a
description and a mapping holds further keywords of JSON Schema.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from rest_framework import serializers

Schema = dict[str, Any]
# Gives the `$ref` of a named object, and keeps its schema.
Refer = Callable[[Any], Schema]

_ID = "[0-7][0-9a-hjkmnp-tv-z]{25}"
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


class Parameter(NamedTuple):
    """One query parameter of a route."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """What a method of a route is called, and what it answers. Its docstring says what it does."""

    id: str
    # A TypedDict; None where the answer has no body.
    answer: Any = None
    status: int = 200
    # The TypedDict of a body that is read by hand; else the view's `fields` say what it is.
    body: Any = None
    # Codes of problems besides those that every request, every list, every path with an id may meet.
    problems: tuple[str, ...] = ()
    # Other answers that are no refusals, by status.
    also: Mapping[int, Any] = field(default_factory=dict)


def id_of(prefix: str) -> Schema:
    return {"pattern": f"^{prefix}_{_ID}$"}


def choices(*values: str) -> Schema:
    return {"enum": list(values)}


class _Keywords(dict[str, Any]):
    """By identity, so that `Time | None` can be written: a union wants to hash its parts."""

    __hash__ = object.__hash__  # type: ignore[assignment]


# As events and deliveries show it: text, made once.
Time = Annotated[str, _Keywords(format="date-time")]

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """One page of a list."""

    results: list[T]
    next: Annotated[
        str | None, {"format": "uri"}, "The address of the next page; null where there is none (a feed: not yet)."
    ]


def schema_of(declared: Any, refer: Refer) -> Schema:
    """Of a type as TypedDicts name it."""
    origin, arguments = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return _annotated(arguments, refer)
    if origin in (NotRequired, Required):
        return schema_of(arguments[0], refer)
    if origin in (Union, types.UnionType):
        return _union([schema_of(each, refer) for each in arguments])
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (list, Sequence):
        return {"type": "array", "items": schema_of(arguments[0], refer)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], refer)}
    if is_typeddict(origin or declared) or _is_shape(declared):
        return refer(declared)
    return dict(_PLAIN[declared])


def object_schema(declared: Any, refer: Refer, *, closed: bool = False) -> Schema:
    """Of a TypedDict itself, not a reference to it. `closed`: other fields are refused."""
    base = get_origin(declared) or declared
    given = get_args(declared)
    hints = get_type_hints(base, include_extras=True)
    shown: Schema = {"type": "object", "description": _first_paragraph(base)}
    shown["properties"] = {name: schema_of(_filled(hint, given), refer) for name, hint in hints.items()}
    if required := [name for name in hints if name in base.__required_keys__]:
        shown["required"] = required
    return shown | ({"additionalProperties": False} if closed else {})


def serializer_schema(shape: serializers.Serializer[Any], *, partial: bool = False) -> Schema:
    """Of a body that a serializer checks. Fields that it does not have are refused."""
    shown: Schema = {"type": "object", "description": _first_paragraph(type(shape))}
    shown["properties"] = {name: _field(each) for name, each in shape.fields.items()}
    if required := [name for name, each in shape.fields.items() if each.required and not partial]:
        shown["required"] = required
    return shown | {"additionalProperties": False}


def _annotated(arguments: tuple[Any, ...], refer: Refer) -> Schema:
    shown = schema_of(arguments[0], refer)
    for said in arguments[1:]:
        shown |= {"description": said} if isinstance(said, str) else dict(said)
    if "enum" in shown and "null" in _listed(shown.get("type")):
        shown["enum"] = [*shown["enum"], None]
    return shown


def _union(parts: list[Schema]) -> Schema:
    """`type: [string, null]` where it can be said so, as OpenAPI 3.1 has it."""
    plain = [part for part in parts if part != {"type": "null"}]
    if len(plain) == 1 and "type" in plain[0] and "enum" not in plain[0]:
        return plain[0] | {"type": [*_listed(plain[0]["type"]), "null"]}
    return {"anyOf": parts}


def _listed(types: Any) -> list[str]:
    return types if isinstance(types, list) else [types] if types else []


def _filled(hint: Any, given: tuple[Any, ...]) -> Any:
    """The item's type in place of the variable of `Page[…]`."""
    return list[given] if given and hint == list[T] else hint  # type: ignore[valid-type]


def _is_shape(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, serializers.BaseSerializer)


def _first_paragraph(of: type) -> str:
    own = (of.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(own.split())


def _field(shown: Any) -> Schema:
    schema = _field_type(shown) | dict(getattr(shown, "keywords", {}))
    if shown.allow_null and "type" in schema:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    if shown.help_text:
        schema["description"] = str(shown.help_text)
    if shown.default is not serializers.empty and shown.default is not None:
        schema["default"] = shown.default
    return schema


def _field_type(shown: Any) -> Schema:
    match shown:
        case serializers.ListSerializer():
            return {"type": "array", "items": serializer_schema(cast(Any, shown.child))}
        case serializers.Serializer():
            return serializer_schema(shown)
        case serializers.ListField():
            return {"type": "array", "items": _field(shown.child)} | _limits(
                minItems=None if shown.allow_empty else 1, maxItems=shown.max_length
            )
        case serializers.DictField():
            return {"type": "object", "additionalProperties": _field(shown.child)}
        case serializers.BooleanField():
            return {"type": "boolean"}
        case serializers.ChoiceField():
            return {"type": "string", "enum": list(shown.choices)}
        case serializers.IntegerField():
            return {"type": "integer"} | _limits(minimum=shown.min_value, maximum=shown.max_value)
        case serializers.DateTimeField():
            return {"type": "string", "format": "date-time"}
        case serializers.JSONField():
            return {}
        case serializers.CharField():
            return {"type": "string"} | _limits(minLength=None if shown.allow_blank else 1, maxLength=shown.max_length)
    raise TypeError(f"{shown!r} has no schema")


def _limits(**given: Any) -> Schema:
    return {name: value for name, value in given.items() if value is not None}
