"""A JSON Schema as a graph: which subschemas look at a value, and which look at its parts.

`SchemaGraph` is built from a schema as it was registered, and read by cost.py, which counts its paths. Where a
reference could mean several subschemas (nested `$id`s, dynamic anchors), it means all of them here: the count may be
too high, never too low, whatever the validator makes of it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

MAX_SUBSCHEMAS = 10_000

_LISTS_HERE = ("allOf", "anyOf", "oneOf")
_HERE = ("not", "if", "then", "else", "contentSchema")
_MAPS_HERE = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_BELOW = (
    "additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems", "unevaluatedItems",
    "contains",
)  # fmt: skip
_MAPS_BELOW = ("properties", "patternProperties", "$defs", "definitions")
_LISTS_BELOW = ("prefixItems", "items")
_ANNOTATED_REFERENCE = {"$ref", "title", "description", "$comment"}
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")


class SchemaRefused(ValueError):
    """A schema that is not taken, with the JSON pointer of the place inside it and a sentence that says what to do."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class Step(NamedTuple):
    """From an object or array to one of its parts. `name` is a property or an index; None is every other one."""

    kind: str  # "property", "item" or "name" (a property's name, as a string)
    name: str | int | None


class SchemaGraph:
    """Subschemas by `id()` of their dict. Made for one check or one look-up, while the schema is kept alive."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._places: dict[int, tuple[int | None, str]] = {}
        self._resources: dict[int, tuple[Any, ...]] = {}
        self._named: dict[str, list[Any]] = {}
        self._learn(schema)

    def pointer(self, node: Any) -> str:
        steps: list[str] = []
        parent, step = self._places.get(id(node), (None, ""))
        while parent is not None:
            steps.append(step)
            parent, step = self._places[parent]
        return "".join(reversed(steps))

    def here(self, node: Any) -> Iterator[Any]:
        """The subschemas that look at the same value, once for each time that it is looked at."""
        if not isinstance(node, dict):
            return
        found = [*_inner(node, _HERE), *_listed(node, _LISTS_HERE), *_mapped(node, _MAPS_HERE), *self.referred(node)]
        yield from found
        if any(keyword in node for keyword in _UNEVALUATED):
            # The validator asks them a second time, for what they have evaluated.
            yield from found

    def meant(self, node: dict[str, Any]) -> dict[str, Any]:
        """What a reference without anything beside it refers to; any other subschema itself."""
        if _is_reference(node):
            targets = list(self.referred(node))
            if len(targets) == 1 and isinstance(targets[0], dict) and not _is_reference(targets[0]):
                return targets[0]
        return node

    def referred(self, node: Any) -> Iterator[Any]:
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str):
                targets = self._targets(node, reference, keyword)
                if not targets:
                    raise SchemaRefused(
                        f"The reference {reference[:100]!r} leads nowhere inside the schema. References to other"
                        " documents are not followed: copy what it names into $defs.",
                        pointer=f"{self.pointer(node)}/{keyword}",
                    )
                yield from targets

    def _targets(self, node: Any, reference: str, keyword: str) -> list[Any]:
        uri, _, fragment = reference.partition("#")
        resources = self._resources.get(id(node), (self.schema,))
        homes = list(resources)
        if uri:
            bases = [str(home.get(key)) for home in resources if isinstance(home, dict) for key in ("$id", "id")]
            homes = [home for base in ["", *bases] for home in self._named.get(_joined(base, uri), ())]
        if fragment == "":
            found = homes + (self._named.get("$recursiveAnchor", []) if keyword == "$recursiveRef" else [])
        elif fragment.startswith("/"):
            found = [target for home in homes for target in _pointed_to(home, fragment)]
        else:
            found = self._named.get(f"#{fragment}", [])
        return [*{id(target): target for target in found}.values()]

    def _learn(self, schema: Any) -> None:
        """Notes where each subschema stands and what it is called."""
        waiting: list[tuple[Any, tuple[Any, ...]]] = [(schema, (schema,))]
        self._places[id(schema)] = (None, "")
        while waiting:
            node, resources = waiting.pop()
            if not isinstance(node, dict):
                continue
            resources = self._learn_names(node, resources)
            self._resources[id(node)] = resources
            for step, inner in _children(node):
                if id(inner) not in self._places:
                    self._places[id(inner)] = (id(node), step)
                    waiting.append((inner, resources))
            if len(self._places) > MAX_SUBSCHEMAS:
                raise SchemaRefused(f"The schema has more than {MAX_SUBSCHEMAS} subschemas. Leave some out.")

    def _learn_names(self, node: dict[str, Any], resources: tuple[Any, ...]) -> tuple[Any, ...]:
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(key), str):
                self._named.setdefault(f"#{node[key]}", []).append(node)
        if node.get("$recursiveAnchor") is True:
            self._named.setdefault("$recursiveAnchor", []).append(node)
        for key in ("$id", "id"):
            if isinstance(given := node.get(key), str):
                bases = [str(home.get("$id") or home.get("id") or "") for home in resources if isinstance(home, dict)]
                for name in {given, *(_joined(base, given) for base in bases)}:
                    self._named.setdefault(name.removesuffix("#"), []).append(node)
                resources = (node, *resources[:20])
        return resources


def _is_reference(node: dict[str, Any]) -> bool:
    return "$ref" in node and node.keys() <= _ANNOTATED_REFERENCE


def _joined(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri).removesuffix("#")
    except ValueError:  # a host in broken brackets
        return uri


def _inner(node: dict[str, Any], keywords: Iterable[str]) -> list[Any]:
    return [node[keyword] for keyword in keywords if isinstance(node.get(keyword), dict | bool)]


def _listed(node: dict[str, Any], keywords: Iterable[str]) -> list[Any]:
    return [inner for keyword in keywords if isinstance(node.get(keyword), list) for inner in node[keyword]]


def _mapped(node: dict[str, Any], keywords: Iterable[str]) -> list[Any]:
    found = [inner for keyword in keywords if isinstance(node.get(keyword), dict) for inner in node[keyword].values()]
    return [inner for inner in found if isinstance(inner, dict | bool)]


def _children(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every subschema that stands in this one, with its pointer from here."""
    for keyword in (*_HERE, *_BELOW):
        if isinstance(node.get(keyword), dict):
            yield f"/{keyword}", node[keyword]
    for keyword in (*_LISTS_HERE, *_LISTS_BELOW):
        if isinstance(node.get(keyword), list):
            yield from ((f"/{keyword}/{index}", inner) for index, inner in enumerate(node[keyword]))
    for keyword in (*_MAPS_HERE, *_MAPS_BELOW):
        if isinstance(node.get(keyword), dict):
            yield from ((f"/{keyword}/{_escaped(name)}", inner) for name, inner in node[keyword].items())


def _pointed_to(home: Any, pointer: str) -> list[Any]:
    """What a JSON pointer names, percent-decoded or as it stands: one place, or none."""
    for text in (unquote(pointer), pointer):
        node = home
        for step in text[1:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list):
                node = node[int(name)] if name.isdecimal() and len(name) < 9 and int(name) < len(node) else None
            else:
                node = node.get(name) if isinstance(node, dict) else None
        if isinstance(node, dict | bool):
            return [node]
    return []


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
