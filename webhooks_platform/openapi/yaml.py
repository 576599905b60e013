"""JSON values as YAML 1.2, in block form. Strings are written as JSON writes them, which YAML reads alike."""

import json
from collections.abc import Iterator
from typing import Any


def dump(value: Any) -> str:
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _entry(f"{indent}{_scalar(str(name))}:", inner, indent)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _entry(f"{indent}-", inner, indent)
    else:
        yield indent + _scalar(value)


def _entry(begin: str, inner: Any, indent: str) -> Iterator[str]:
    if isinstance(inner, (dict, list)) and inner:
        yield begin
        yield from _lines(inner, f"{indent}  ")
    else:
        yield f"{begin} {_scalar(inner)}"


def _scalar(value: Any) -> str:
    """An empty object or list, too."""
    return json.dumps(value, ensure_ascii=False)
