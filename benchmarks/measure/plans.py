"""The plans that statements ran by, from the server's log.

Those of real statements with their real parameters (auto_explain), not of a statement made up for the occasion.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.load.preload import database
from benchmarks.measure.statements import name_of
from benchmarks.report.figures import significant
from benchmarks.stand import Stand

EXPLAINED: dict[str, str | None] = {
    "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on",
    "auto_explain.log_wal": "on", "auto_explain.log_format": "json",
}  # fmt: skip
# Nodes that do something to rows, rather than pass on what others did.
DOING = ("ModifyTable", "LockRows", "Index Scan", "Index Only Scan", "Seq Scan", "Function Scan", "Bitmap Heap Scan")
PLAN = re.compile(r"duration: [\d.]+ ms  plan:\n((?:\t.*\n)+)")


@contextmanager
def explained(bench: Stand) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Fills, by statement, the nodes of its plan: of the one run that took longest."""
    found: dict[str, list[dict[str, Any]]] = {}
    log = bench.folder.log("postgres")
    begun = log.stat().st_size
    _set(bench, EXPLAINED)
    try:
        yield found
    finally:
        _set(bench, dict.fromkeys(EXPLAINED))
    with log.open(errors="replace") as lines:
        lines.seek(begun)
        found.update(longest(lines.read()))


def _set(bench: Stand, settings: Mapping[str, str | None]) -> None:
    """Without a value, as it was."""
    with database(bench) as connection:
        for name, value in settings.items():
            connection.execute(
                f"ALTER SYSTEM {'RESET' if value is None else 'SET'} {name}" + (f" = '{value}'" if value else "")
            )
        connection.execute("SELECT pg_reload_conf()")


def longest(log: str) -> dict[str, list[dict[str, Any]]]:
    plans: dict[str, Any] = {}
    for found in PLAN.finditer(log):
        plan = json.loads(found[1])
        name = name_of(plan["Query Text"])
        if name not in plans or plan["Plan"]["Actual Total Time"] > plans[name]["Actual Total Time"]:
            plans[name] = plan["Plan"]
    return {name: list(_nodes(plan)) for name, plan in plans.items()}


def _nodes(node: Mapping[str, Any], charged: Sequence[Mapping[str, Any]] = ()) -> Iterator[dict[str, Any]]:
    """From the top down, each with what it did itself.

    A sub-plan's work is charged to whoever asks for its value: a CTE's to the nodes that read it, which are not shown,
    any other's to the scan beside it, where it is taken off.
    """
    apart = [one for one in node.get("Plans", []) if one["Parent Relationship"] == "InitPlan"]
    below = [one for one in node.get("Plans", []) if one["Parent Relationship"] != "InitPlan"]
    asked = [*charged, *(one for one in apart if not one["Subplan Name"].startswith("CTE"))]

    def own(figure: str) -> float:
        return max(0.0, _whole(node, figure) - sum(_whole(one, figure) for one in below or charged))

    where = node.get("Index Name") or node.get("Relation Name") or ""
    if node["Node Type"] in DOING and _whole(node, "Actual Rows") + _whole(node, "WAL Bytes"):
        yield {
            "node": f"{node.get('Operation', node['Node Type'])} {where}".strip(),
            "rows": round(_whole(node, "Actual Rows")),
            "ms": significant(own("Actual Total Time")),
            "buffers": round(own("Shared Hit Blocks") + own("Shared Read Blocks")),
            "wal_bytes": round(own("WAL Bytes")),
        }
    for number, one in enumerate(below):
        yield from _nodes(one, asked if number == 0 else ())
    for one in apart:
        yield from _nodes(one)


def _whole(node: Mapping[str, Any], figure: str) -> float:
    """Over all its loops: times and rows are given for one of them."""
    return float(node.get(figure, 0)) * (node["Actual Loops"] if figure.startswith("Actual") else 1)
