"""From the figures to what people read: the table on the screen, the generated parts of docs/performance.md, the plots.

`python -m benchmarks.report.document` writes the docs anew from the committed JSON. Everything between the markers
is from there, and nothing of it is typed by hand.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.report import charts, explain, plots
from benchmarks.report.figures import Spread
from benchmarks.report.tables import markdown as _markdown
from benchmarks.report.targets import judge_all

DOCS = Path(__file__).resolve().parents[2] / "docs"
RESULTS = DOCS / "performance" / "results.json"
PART = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)
WHERE = ("worker", "web", "postgres", "redis", "receiver")
EMIT_SIDES = {
    "noop": "no-op view",
    "single": "single",
    "once": "single, with an id and an Idempotency-Key",
    "ordered": "single, with an ordering key",
    "through_django": "single, through Django",
    "batch": "batch of 100",
    "batch_one": "batch of 100, all of one consumer",
}
SIDES = ("alone", "beside")
NO_RUN = "No complete run has been recorded yet: `make bench` writes one here."


def table(measures: Mapping[str, Any]) -> str:
    """For the screen."""
    rows = [("what", "target", "figure (turns)", "verdict")]
    rows += [(one.target.says, one.target.shown, one.shown, one.word) for one in judge_all(measures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def write(results: Mapping[str, Any], docs: Path = DOCS) -> None:
    """The generated parts of performance.md, and the plots beside the JSON."""
    page = docs / "performance.md"
    page.write_text(fill(page.read_text(), results))
    for name, chart in charts.all_of(results["measures"]).items():
        (docs / "performance" / f"{name}.svg").write_text(plots.render(chart))


def fill(page: str, results: Mapping[str, Any] | None) -> str:
    """The page with everything between its markers written anew."""
    return PART.sub(lambda found: f"{found[1]}{_part(found[2], results)}\n{found[3]}", page)


def _part(name: str, results: Mapping[str, Any] | None) -> str:
    if results is None:
        return NO_RUN
    text = PARTS[name](results)
    plots_of = {"growth": ("endpoints", "in_flight")}.get(name, (name,))
    drawn = [plot for plot in plots_of if plot in charts.NAMES]
    return "\n\n".join([text, *(f"![{plot}](performance/{plot}.svg)" for plot in drawn)])


def _run(results: Mapping[str, Any]) -> str:
    machine = results["machine"]
    return (
        f"Taken {machine['taken_at']} on {machine['cores']} cores ({machine['system']}), Python {machine['python']}, "
        f"PostgreSQL {machine['postgres']}, in {results['seconds'] / 60:.0f} minutes{_circumstances(machine)}."
    )


def _circumstances(machine: Mapping[str, Any]) -> str:
    """What a run records since it does; nothing for one of before."""
    receiver = f", to {machine['receiver']}" if "receiver" in machine else ""
    return receiver + (f", at commit {machine['commit']}" if machine.get("commit") else "")


def _table(results: Mapping[str, Any]) -> str:
    verdicts = judge_all(results["measures"])
    lines = [f"| {one.target.says} | {one.target.shown} | {one.shown} | {one.word} |" for one in verdicts]
    return _markdown("| what | target | figure (least–greatest turn) | verdict |", lines)


def _deliver(results: Mapping[str, Any]) -> str:
    lines = []
    for name in ("one", "two"):
        side = results["measures"]["deliver"][name]
        parts = " | ".join(f"{side['cpu_ms'][part]['median']:.3f}" for part in ("worker", "postgres", "redis"))
        rates = f"{side['rate']['median']:,.0f}/s | {side['bare_rate']['median']:,.0f}/s | {_ratio(side['ratio'])}"
        lines.append(f"| {name} | {rates} | {parts} | {side['bare_cpu_ms']['median']:.3f} |")
    return _markdown(
        "| processes | ours | bare loop | ours ÷ bare, in a turn | worker, ms | PostgreSQL, ms | Redis, ms"
        " | bare loop, ms |",
        lines,
    )


def _emit(results: Mapping[str, Any]) -> str:
    lines = []
    for name, shown in EMIT_SIDES.items():
        side = results["measures"]["emit"].get(name)
        if side is None:
            continue
        times = f"{side['p50_ms']['median']:.0f} | {side['p99_ms']['median']:.0f}"
        parts = " | ".join(f"{side['cpu_ms'][part]['median']:.3f}" for part in ("web", "postgres", "redis"))
        found = results["measures"]["emit"]
        ratios = " | ".join(_ratio(found.get(f"{name}_by_{other}")) for other in ("noop", "single"))
        lines.append(f"| {shown} | {side['rate']['median']:,.0f} | {ratios} | {times} | {parts} |")
    head = "| | events/s | ÷ no-op, in a turn | ÷ single, in a turn | p50, ms | p99, ms"
    return _markdown(f"{head} | web, ms | PostgreSQL, ms | Redis, ms |", lines)


def _through(results: Mapping[str, Any]) -> str:
    lines = []
    for rate, side in results["measures"]["through"].items():
        times = " | ".join(f"{side['arrival'][name]['median']:.1f}" for name in ("p50_ms", "p95_ms", "p99_ms"))
        lines.append(f"| {rate}/s | {times} |")
    return _markdown("| events | p50, ms | p95, ms | p99, ms |", lines)


def _where(results: Mapping[str, Any]) -> str:
    """CPU per delivery or event, by part, in microseconds and as a share of the whole."""
    deliver, emit = results["measures"]["deliver"], results["measures"]["emit"]
    sides = {"a delivery, one worker": deliver["one"], "a delivery, two workers": deliver["two"]}
    sides |= {f"an emit, {shown}": emit[name] for name, shown in EMIT_SIDES.items() if name in emit}
    lines = []
    for shown, side in sides.items():
        spent = {part: 1000 * side["cpu_ms"].get(part, {"median": 0.0})["median"] for part in WHERE}
        whole = sum(spent.values())
        cells = [f"{micros:.0f} µs ({micros / whole:.0%})" if micros else "" for micros in spent.values()]
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return _markdown("| | worker | web | PostgreSQL | Redis | receiver |", lines)


def _isolation(results: Mapping[str, Any]) -> str:
    lines = []
    for case in results["measures"]["isolation"].values():
        through, waits = case["throughput"], case["latency"]
        rates = f"{through['alone']['median']:,.0f}/s | {through['beside']['median']:,.0f}/s"
        times = f"{waits['alone_p99_ms']['median']:.0f} ms | {waits['beside_p99_ms']['median']:.0f} ms"
        cells = f"{rates} | {_ratio(through['ratio'])} | {times} | {_ratio(waits['ratio'])}"
        cpu = [through[f"{side}_cpu_ms"]["median"] if f"{side}_cpu_ms" in through else None for side in SIDES]
        shown = " | ".join("" if one is None else f"{one:.3f}" for one in cpu)
        lines.append(f"| {case['healthy']} beside {case['hanging']} | {cells} | {shown} |")
    return _markdown(
        "| healthy beside hanging | alone | beside | beside ÷ alone, in a pair | p99 alone | p99 beside"
        " | beside ÷ alone, in a pair | CPU alone, ms | CPU beside, ms |",
        lines,
    )


def _burden(results: Mapping[str, Any]) -> str:
    lines = []
    for name, size in (("backlog", "parked"), ("history", "finished")):
        found = results["measures"][name]
        rates = f"{found['without']['median']:,.0f}/s | {found['with']['median']:,.0f}/s | {_ratio(found['ratio'])}"
        cpu = f"{found['without_cpu_ms']['median']:.3f} | {found['with_cpu_ms']['median']:.3f}"
        memory = f"{found['with_memory_mib']['median']:.0f} MiB"
        lines.append(f"| {found[size]:,} {size} | {rates} | {cpu} | {memory} |")
    return _markdown(
        "| burden | without | with | with ÷ without, in a pair | CPU without, ms | CPU with, ms"
        " | worker's memory with |",
        lines,
    )


def _growth(results: Mapping[str, Any]) -> str:
    endpoints, in_flight = results["measures"]["endpoints"], results["measures"]["in_flight"]
    lines = []
    for size, one in endpoints["sizes"].items():
        growth = _ratio(endpoints["growth"]) if size == list(endpoints["sizes"])[-1] else ""
        lines.append(f"| {int(size):,} endpoints | {one['system_cpu_ms']['median']:.3f} | {growth} | |")
    if first := endpoints.get("first_cpu_ms"):
        lines.append(f"| 10,000 endpoints, the first delivery to each | {first:.3f} | | |")
    for level, one in in_flight["levels"].items():
        memory = f"{one['memory_mib']['median']:.0f} MiB"
        growth = _ratio(in_flight["growth"]) if level == list(in_flight["levels"])[-1] else ""
        lines.append(f"| {int(level):,} in flight | {one['cpu_ms']['median']:.3f} | {growth} | {memory} |")
    return _markdown("| with | CPU per delivery, ms | the most ÷ the least, in a turn | worker's memory |", lines)


def _idle(results: Mapping[str, Any]) -> str:
    found = results["measures"]["idle"]
    if "states" not in found:  # a run of before there were two
        parts = ", ".join(f"{part} {share:.2f}" for part, share in found["percent"].items())
        return f"{found['total_percent']:.2f} % of one core over {found['seconds']} s: {parts}."
    names = list(found["states"]["waiting"]["percent"])
    lines = []
    for name, state in found["states"].items():
        shares = " | ".join(f"{state['percent'][part]['median']:.2f}" for part in names)
        lines.append(f"| {name} | {_ratio(state['total_percent'])} | {shares} |")
    head = f"| pumps | of one core, % (least–greatest of {found['seconds']} s each) | {' | '.join(names)} |"
    first = f"The first event after the pumps had ended arrived after {_ratio(found['first_event_ms'])} ms."
    return f"{_markdown(head, lines)}\n\n{first}"


def _ratio(found: Spread | None) -> str:
    """Of the turns themselves, since the medians of the two sides may come from different ones."""
    return f"{found['median']:.3g} ({found['low']:.3g}–{found['high']:.3g})" if found else ""


PARTS = {
    "run": _run, "table": _table, "deliver": _deliver, "emit": _emit, "through": _through,
    "isolation": _isolation, "burden": _burden, "growth": _growth, "idle": _idle, "capacity": explain.capacities,
    "checks": explain.checked, "where": _where, "profile": explain.profile,
}  # fmt: skip


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text()))
