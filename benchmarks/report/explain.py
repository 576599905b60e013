"""The parts of docs/performance.md that explain: where the time goes, what it takes to grow, how far to believe it."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from benchmarks.capacity import checks, machines
from benchmarks.capacity.checks import CLOSE_ENOUGH, CPU, LATENCY, RATE, Check
from benchmarks.capacity.fit import Model, model
from benchmarks.capacity.machines import Plan
from benchmarks.report.figures import percentile
from benchmarks.report.tables import markdown

NO_PROFILE = "The run recorded here has no profile, which this needs: the next complete `make bench` takes one."
# Rates at which one primary is enough, so that the plan is one system and can be rehearsed.
SIMULATED = (1_000, 10_000)
# What is smaller than this is left out.
LEAST_SHARE = 0.02
RECEIVERS = {
    "one_origin": "one host, connections kept", "many_origins": "200 hosts, connections kept",
    "new_connections": "200 hosts, a new connection for each delivery",
}  # fmt: skip


def profile(results: Mapping[str, Any]) -> str:
    found = results["measures"].get("profile")
    if found is None:
        return NO_PROFILE
    parts = [_company(found), _statements(found), _plans(found), _python(found), _receivers(found)]
    return "\n\n".join(part for part in parts if part)


def _company(found: Mapping[str, Any]) -> str:
    """What an event costs in small company, and in a crowd."""
    full, single = found["deliver"], found["emit"]["single"]
    steady = [found[name] for name in ("lone", "some", "more")]

    sides = [*steady, full, single]

    def row(shown: str, figures: Sequence[float], digits: int) -> str:
        *by_rate, out, way_in = figures
        return f"| {shown} | {' | '.join(f'{figure:,.{digits}f}' for figure in (*by_rate, out + way_in))} |"

    names = {"web": "web", "worker": "worker", "postgres": "PostgreSQL", "redis": "Redis"}
    lines = [row(f"{names[part]}, ms of CPU", [side["cpu_ms"][part] for side in sides], 2) for part in names]
    lines += [row(name, [side[name] for side in sides], 3) for name in ("stores", "claims", "settlements")]
    lines.append(row("WAL, bytes", [side["wal_bytes"] for side in sides], 0))
    head = "".join(f" | at {side['rate']}/s" for side in steady)
    said = "An event with its one delivery, at steady rates and where the machine is full:"
    return f"{said}\n\n" + markdown(f"|{head} | full |", lines)


def _statements(found: Mapping[str, Any]) -> str:
    lines = []
    for shown, side in (
        ("a drain", found["deliver"]),
        ("emits", found["emit"]["single"]),
        (f"{found['lone']['rate']}/s", found["lone"]),
    ):
        for one in side["statements"]:
            if one["share"] < LEAST_SHARE:
                continue
            rows = one["rows"] / max(1, one["calls"])
            lines.append(
                f"| {shown} | `{one['name']}` | {one['calls']:,} | {rows:,.0f} | {one['mean_ms']:.2f}"
                f" | {one['share']:.0%} | {one['wal_bytes_per_call']:,} |"
            )
    head = "| in | statement | calls | rows a call | mean, ms | share of the time | WAL a call, bytes |"
    return "PostgreSQL's statements (`pg_stat_statements`):\n\n" + markdown(head, lines)


def _plans(found: Mapping[str, Any]) -> str:
    lines = []
    for name, nodes in found["plans"].items():
        whole = sum(node["ms"] for node in nodes) or 1
        for node in nodes:
            if node["ms"] < LEAST_SHARE * whole and not node["wal_bytes"]:
                continue
            figures = f"{node['rows']:,} | {node['ms']:.2f} | {node['buffers']:,} | {node['wal_bytes']:,}"
            lines.append(f"| `{name}` | {node['node']} | {figures} |")
    if not lines:
        return ""
    head = "| statement | node | rows | own time, ms | buffers | WAL, bytes |"
    return "The slowest claim and the slowest settlement of a drain (`auto_explain`), node by node:\n\n" + markdown(
        head, lines
    )


def _python(found: Mapping[str, Any]) -> str:
    sides = {name: shares for name, shares in found["python"].items() if shares}
    if not sides:
        return "Python's side was not sampled: py-spy was missing, or was not allowed to."
    lines = []
    for name, shares in sides.items():
        shown = ", ".join(f"{group} {share:.0%}" for group, share in shares.items() if share >= LEAST_SHARE)
        lines.append(f"| {name} | {shown} |")
    said = "Python's own time (py-spy, samples of whoever holds the interpreter), by package, and by file for our own:"
    return f"{said}\n\n" + markdown("| process | own time |", lines)


def _receivers(found: Mapping[str, Any]) -> str:
    lines = []
    for name, shown in RECEIVERS.items():
        plain, tls = (found["receivers"][f"{scheme}_{name}"]["cpu_ms"] for scheme in ("http", "https"))
        lines.append(f"| {shown} | {plain:.2f} | {tls:.2f} |")
    said = "A worker's CPU per delivery, by who receives it:"
    return f"{said}\n\n" + markdown("| receivers | plain HTTP, ms | TLS, ms |", lines)


def capacities(results: Mapping[str, Any]) -> str:
    """Each rate at its own cost and with its latency, as far as the simulation may say; else at a full drain's cost."""
    measures = results["measures"]
    known = model(measures) if "profile" in measures else None
    found = _checks(results) if known else []
    held = {unit: all(one.is_close for one in found if one.unit == unit) for unit in (CPU, LATENCY)}
    lines, redis = [], []
    for events, way in ((1, "one by one"), (100, "in batches of 100")):
        per = machines.costs(measures, batched=events > 1)
        for rate in machines.RATES:
            # Beyond that, more processes each see the same rate, so a delivery costs the same.
            if known and held[CPU] and rate in SIMULATED:
                per = checks.shared_costs(known, per, rate=rate, events=events)
            one = machines.plan(rate, per)
            lines.append(_plan_line(one, way, _latency(known, one, events) if known and held[LATENCY] else None))
        full = machines.redis_is_full_at(per)
        redis.append(f"{full:,.0f} a second emitted {way}" if full else "more than could be measured")
    head = (
        "| deliveries | worker cores | with a new TLS connection each | web cores | PostgreSQL cores | WAL, MB/s"
        " | Redis cores | machines of 8 cores | PostgreSQL primaries |"
    )
    said = f"One Redis is {machines.BUSY:.0%} busy at {' and at '.join(redis)}."
    return "\n\n".join([markdown(head + (" p50, p95 |" if known and held[LATENCY] else ""), lines), said])


def _plan_line(one: Plan, way: str, times: str | None) -> str:
    cells = [
        f"{one.rate:,}/s, emitted {way}", f"{one.worker_cores:g}", _or_dash(one.worker_cores_new_tls),
        f"{one.web_cores:g}", f"{one.postgres_cores:g}", _or_dash(one.wal_mb_per_second), f"{one.redis_cores:g}",
        str(one.machines), str(one.primaries), *([times] if times is not None else []),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _latency(known: Model, one: Plan, events: int) -> str:
    if one.rate not in SIMULATED:
        return "–"
    times = checks.simulate(known, one, events=events).seconds
    return ", ".join(f"{1000 * percentile(times, percent):.0f}" for percent in (50, 95)) + " ms"


def checked(results: Mapping[str, Any]) -> str:
    if "profile" not in results["measures"]:
        return NO_PROFILE
    found = _checks(results)
    lines = [
        f"| {one.what} | {_shown(one, one.measured)} | {_shown(one, one.simulated)} | {one.error:+.0%} |"
        for one in found
    ]
    off = [one.what for one in found if not one.is_close]
    said = (
        f"Off by more than a factor of {CLOSE_ENOUGH:g}: {', '.join(off)}. What the simulation cannot say of this"
        " machine it cannot say of another, so the plans leave that out."
        if off
        else f"All of it is within a factor of {CLOSE_ENOUGH:g}, so the plans rest on the simulation."
    )
    return "\n\n".join([markdown("| point | measured | simulated | simulation off by |", lines), said])


def _checks(results: Mapping[str, Any]) -> list[Check]:
    return _checks_of(json.dumps(results["measures"]), results["machine"]["cores"])


@lru_cache(maxsize=2)
def _checks_of(measures: str, cores: int) -> list[Check]:
    """Some seconds of simulation, asked for by two parts of the page."""
    return checks.checks(json.loads(measures), cores=cores)


def _shown(one: Check, value: float) -> str:
    return f"{value:,.0f}{one.unit}" if one.unit == RATE else f"{value:,.1f}{one.unit}"
