"""What the shell commands share: the dead letters' filter as options, tables, a progress bar."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError
from django.http import QueryDict

from deliveries.browse import criteria
from deliveries.browse.criteria import Criteria
from deliveries.browse.filter import FilterField


def _meaning(declared: FilterField) -> str:
    words = [f"One of {', '.join(value for value, _ in declared.choices)}."] if declared.choices else []
    return " ".join([declared.meaning, *words, f"E.g. {declared.hint}." if declared.hint else ""]).strip()


_FILTERS = {
    "consumer": "uid or con_… of the consumer",
    "endpoint": "ep_… of the endpoint",
    **{name: _meaning(declared) for name, declared in criteria.CONSOLE_FIELDS},
    "within": f"created within {', '.join(criteria.WITHIN)}",
    "since": "created since, e.g. 2026-01-31T12:00 (UTC)",
    "until": "created before",
    "search": "an event id, a producer's id, an ordering key",
}


def add_filters(parser: ArgumentParser) -> None:
    for name, meaning in _FILTERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default="", help=meaning)


def read_filters(options: dict[str, Any]) -> Criteria:
    given = QueryDict(mutable=True)
    for name in _FILTERS:
        given["q" if name == "search" else name] = options[name]
    asked = criteria.read(given)
    if asked.problems:
        raise CommandError(" ".join(asked.problems))
    return asked


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers to the right, text to the left."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(len(name), *(len(row[index]) for row in cells)) for index, name in enumerate(head)]
    right = [all(isinstance(row[index], int) for row in rows) for index in range(len(head))]

    def line(parts: Sequence[str]) -> str:
        places = zip(parts, widths, right, strict=True)
        return "  ".join(part.rjust(width) if to_right else part.ljust(width) for part, width, to_right in places)

    return "\n".join([line(head), line(["─" * width for width in widths]), *(line(row).rstrip() for row in cells)])


def progress(done: int, total: int, *, width: int = 40) -> str:
    share = min(1.0, done / total) if total else 1.0
    full = int(width * share)
    return f"{'█' * full}{'░' * (width - full)} {share:4.0%}  {done:,} of {total:,}"
