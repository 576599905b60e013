"""How much work a schema may ask of the validator, judged once, when it is registered.

The validator visits a value with every subschema that looks at it, and reaches one subschema on several paths: through
the branches of a combinator, through references, at every level of nested data again. So paths are counted: how many
lead to one value, whatever the data, down to the deepest data that is accepted. A reference back to the start that is
taken through two branches doubles with every level and is refused; a tree or a list, whose every part is reached on one
path, is not. What passes costs at most `MAX_VISITS` visits per value of the data, each of some nanoseconds; where that
may be many, the values are counted before they are checked (work.py).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs

from subscriptions.schemas.graph import SchemaGraph, SchemaRefused, Step

# Visits of one value. A visit takes about 7 ns.
MAX_VISITS = 1000
# Deeper data is refused by the parser (parsing.py).
MAX_DATA_DEPTH = 256
# What counting may take by itself: paths followed and sums made.
_MAX_STEPS = 200_000
# Trying a pattern on a property's name takes as long as so many of them.
_MATCH_STEPS = 2
# One pattern, and all patterns of one schema, compiled (bytes).
MAX_PATTERN_BYTES = 1 << 20
_MAX_PATTERNS_BYTES = 4 << 20
# Compiled to so many bytes, a pattern costs so many visits: it may take a step per state and character.
_PATTERN_VISITS = {1 << 12: 3, 1 << 14: 8, 1 << 16: 30, 1 << 18: 100, MAX_PATTERN_BYTES: 400}
# Comparing with one value of an enum that holds objects or arrays, in visits.
_COMPARISON_VISITS = 20

_TOO_MANY = (
    "Checking data against this part could take too long: too many subschemas look at the same value. Take references"
    " out of allOf, anyOf, oneOf, not and if, so that each part of the data is checked by one of them; shorten lists."
)
_INTRICATE = "The schema is too intricate to be checked. Use fewer references and fewer combinators."

# Parts that no keyword names.
_OTHERS = (Step("property", None), Step("item", None), Step("name", None))

Visits = Callable[[Any], int]


class Cost(NamedTuple):
    """The most visits that one value can get, and the memory that patterns take (bytes)."""

    visits: int
    pattern_bytes: int


def check_cost(schema: Any) -> Cost:
    """`SchemaRefused` where it is too much."""
    paths = Paths(SchemaGraph(schema))
    # A list of unique items hashes all that it holds: each part pays for every such list around it.
    paths.most(_uniqueness, adds_up=True)
    return Cost(paths.most(paths.visits, adds_up=False), sum(paths.patterns.values()))


class Paths:
    """The moves from each subschema that is entered with a value, to those entered with the value's parts."""

    def __init__(self, graph: SchemaGraph) -> None:
        self._graph = graph
        self._steps = 0
        self._nodes: dict[int, Any] = {}
        self._visits: dict[int, int] = {}
        self.patterns: dict[str, int] = {}
        self._matchers: dict[str, Any] = {}
        # The subschemas that look at the value with an entered one, and how often each.
        self._closures: dict[int, Counter[int]] = {}
        self._moves: dict[int, list[Counter[int]]] = {}
        self._above: dict[int, set[int]] = {}
        self._sizes: dict[int, int] = {}
        self._here: dict[int, list[Any]] = {}
        waiting = [graph.schema]
        while waiting:
            node = waiting.pop()
            if id(node) not in self._closures:
                waiting += self._enter(node)

    def visits(self, node: Any) -> int:
        if id(node) not in self._visits:
            self._visits[id(node)] = self._own_visits(node)
        return self._visits[id(node)]

    def most(self, visits: Visits, *, adds_up: bool) -> int:
        """The most visits of one value on any way down, or of all values on it where they add up."""
        own = {
            entry: sum(visits(self._nodes[node]) * count for node, count in closure.items())
            for entry, closure in self._closures.items()
        }
        most, changed = dict(own), set(own)
        for _ in range(MAX_DATA_DEPTH):
            self._refuse_over(most, changed)
            above = {entry for target in changed for entry in self._above.get(target, ())}
            before, changed = dict(most), set()
            for entry in above:
                below = max(
                    sum(before[target] * count for target, count in self._count(move)) for move in self._moves[entry]
                )
                value = own[entry] + below if adds_up else max(own[entry], below)
                if value > most[entry]:
                    most[entry] = value
                    changed.add(entry)
            if not changed:
                break
        self._refuse_over(most, changed)
        return most[id(self._graph.schema)]

    def _refuse_over(self, most: dict[int, int], changed: Iterable[int]) -> None:
        over = [entry for entry in changed if most[entry] > MAX_VISITS]
        if over:
            raise SchemaRefused(_TOO_MANY, pointer=min((self._place(entry) for entry in over), key=len))

    def _place(self, entry: int) -> str:
        return self._graph.pointer(self._nodes[entry])

    def _count(self, move: Counter[int]) -> Iterable[tuple[int, int]]:
        self._take(len(move))
        return move.items()

    def _take(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MAX_STEPS:
            raise SchemaRefused(_INTRICATE)

    def _enter(self, node: Any) -> list[Any]:
        """Notes what a value entered here meets; returns what its parts enter."""
        self._size(node)
        self._nodes[id(node)] = node
        closure: Counter[int] = Counter()
        waiting = [node]
        while waiting:
            each = waiting.pop()
            self._nodes[id(each)] = each
            closure[id(each)] += 1
            self._take(1)
            waiting += self._here[id(each)]
        self._closures[id(node)] = closure
        # Before its patterns are tried on names: they are few enough then, and can be used.
        own = sum(self.visits(self._nodes[each]) * count for each, count in closure.items())
        self._refuse_over({id(node): own}, [id(node)])
        moves = list(self._below(closure))
        self._moves[id(node)] = moves
        targets = {target for move in moves for target in move}
        for target in targets:
            self._above.setdefault(target, set()).add(id(node))
        return [self._nodes[target] for target in targets]

    def _size(self, start: Any) -> None:
        """Refuses before anything is written out: too many subschemas for one value, or one that leads to itself."""
        waiting: list[tuple[Any, list[Any] | None]] = [(start, None)]
        while waiting:
            node, inner = waiting.pop()
            if inner is None and id(node) not in self._sizes:
                self._sizes[id(node)] = 0  # under way
                self._nodes[id(node)] = node
                inner = self._here[id(node)] = list(self._graph.here(node))
                self._take(len(inner))
                waiting.append((node, inner))
                waiting += [(each, None) for each in inner if id(each) not in self._sizes]
                self._refuse_loop(node, inner)
            elif inner is not None:
                self._refuse_loop(node, inner)
                self._sizes[id(node)] = 1 + sum(self._sizes[id(each)] for each in inner)
                if self._sizes[id(node)] > MAX_VISITS:
                    raise SchemaRefused(_TOO_MANY, pointer=self._graph.pointer(node))

    def _refuse_loop(self, node: Any, inner: list[Any]) -> None:
        if any(self._sizes.get(id(each)) == 0 for each in inner):
            raise SchemaRefused(
                "This leads back to itself without going into a part of the data, and so never ends. Refer to it from"
                " a property or from items.",
                pointer=self._graph.pointer(node),
            )

    def _below(self, closure: Counter[int]) -> Iterable[Counter[int]]:
        """For each step that can be told from others: the subschemas entered with that part, and how often."""
        nodes = [node for node in closure if isinstance(self._nodes[node], dict)]
        by_step: dict[Step, list[int]] = {step: [] for step in _OTHERS}
        for node in nodes:
            for step in _steps(self._nodes[node]):
                by_step.setdefault(step, []).append(node)
        others = {step.kind: [node for node in nodes if self._entered(self._nodes[node], step)] for step in _OTHERS}
        for step, named in by_step.items():
            move: Counter[int] = Counter()
            for node in {*named, *others[step.kind]}:
                self._take(1)
                for target in self._entered(self._nodes[node], step):
                    self._nodes[id(target)] = target
                    move[id(target)] += closure[node]
            if move:
                yield move

    def _entered(self, node: dict[str, Any], step: Step) -> list[Any]:
        if step.kind == "name":
            found = [node.get("propertyNames")]
        elif step.kind == "item":
            found = _items(node, step.name)
        else:
            found = self._properties(node, step.name)
        return [self._graph.meant(target) for target in found if isinstance(target, dict)]

    def _properties(self, node: dict[str, Any], name: str | int | None) -> list[Any]:
        patterns = node["patternProperties"] if isinstance(node.get("patternProperties"), dict) else {}
        if name is not None:
            self._take(sum(_MATCH_STEPS + self._match_visits(each, str(name)) for each in patterns))
        found = [inner for pattern, inner in patterns.items() if name is None or self._matches(pattern, str(name))]
        properties = node.get("properties")
        if isinstance(properties, dict) and name is not None and name in properties:
            return [*found, properties[name]]
        return [*found, node.get("additionalProperties"), node.get("unevaluatedProperties")]

    def _match_visits(self, pattern: str, name: str) -> int:
        """A large pattern on a long name takes a step per state and character."""
        return _PATTERN_VISITS[self.patterns[pattern]] * len(name) // 256

    def _matches(self, pattern: str, name: str) -> bool:
        """Compiled once for a schema: its patterns were found small enough when it was entered."""
        if pattern not in self._matchers:
            self._matchers[pattern] = _matcher(pattern, MAX_PATTERN_BYTES)
        return bool(self._matchers[pattern].is_valid(name))

    def _own_visits(self, node: Any) -> int:
        if not isinstance(node, dict):
            return 1
        patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
        if isinstance(node.get("patternProperties"), dict):
            # Once for the subschema behind it, and once to tell which properties are additional.
            patterns += [*node["patternProperties"]] * 2
        return 1 + sum(self._pattern_visits(node, each) for each in patterns) + _list_visits(node)

    def _pattern_visits(self, node: Any, pattern: str) -> int:
        size = _compiled_bytes(pattern)
        if not size:
            raise SchemaRefused(
                "This pattern cannot be used: it is no regular expression, looks around or back, or is too large."
                " Leave out (?=, (?! and \\1, and lower its repetition counts.",
                pointer=f"{self._graph.pointer(node)}/pattern" if "pattern" in node else self._graph.pointer(node),
            )
        self._take(100)
        self.patterns[pattern] = size
        if sum(self.patterns.values()) > _MAX_PATTERNS_BYTES:
            raise SchemaRefused("The patterns of this schema are too large together. Lower their repetition counts.")
        return _PATTERN_VISITS[size]


def _uniqueness(node: Any) -> int:
    return 2 if isinstance(node, dict) and node.get("uniqueItems") is True else 0


def _steps(node: dict[str, Any]) -> Iterable[Step]:
    properties, first = node.get("properties"), _first_items(node)
    if isinstance(properties, dict):
        yield from (Step("property", name) for name in properties)
    yield from (Step("item", index) for index in range(len(first)))


def _first_items(node: dict[str, Any]) -> list[Any]:
    listed = [node[keyword] for keyword in ("prefixItems", "items") if isinstance(node.get(keyword), list)]
    return listed[0] if listed else []


def _items(node: dict[str, Any], index: str | int | None) -> list[Any]:
    first = _first_items(node)
    found = [node.get("contains")] * (2 if "unevaluatedItems" in node else 1)
    if isinstance(index, int) and index < len(first):
        return [*found, first[index]]
    return [*found, node.get("items"), node.get("additionalItems"), node.get("unevaluatedItems")]


def _list_visits(node: dict[str, Any]) -> int:
    """What the validator goes through one by one. Numbers and strings of an enum it finds by their hash."""
    values = node["enum"] if isinstance(node.get("enum"), list) else []
    composite = any(isinstance(value, list | dict) for value in values)
    compared = _values_in([*values]) * _COMPARISON_VISITS if composite else 0
    listed = [node[keyword] for keyword in ("dependentRequired", "dependencies", "dependentSchemas") if keyword in node]
    depending = sum(len(entries) for entries in listed if isinstance(entries, dict))
    return compared + 2 * depending + _values_in(node.get("const")) // 4


def _values_in(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return count


@lru_cache(maxsize=1024)
def _compiled_bytes(pattern: str) -> int:
    """The smallest of our limits that it fits into, 0 for none of them."""
    for limit in _PATTERN_VISITS:
        try:
            _matcher(pattern, limit)
        except ValueError:
            continue
        return limit
    return 0


def _matcher(pattern: str, limit: int) -> Any:
    return jsonschema_rs.validator_for(
        {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(size_limit=limit)
    )
