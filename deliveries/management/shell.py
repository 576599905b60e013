"""What the shell commands share: the dead letters' filter as options, tables, a progress bar."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError
from django.http import QueryDict

from deliveries.browse import criteria, words
from deliveries.browse.criteria import Criteria

_FILTERS = {
    "consumer": "uid or con_… of the consumer",
    "endpoint": "ep_… of the endpoint",
    "event-type": "e.g. invoice.paid",
    "reason": f"why they died: {', '.join(words.DEAD)}",
    "error": "how the last attempt ended, e.g. http_503 or connect_failed",
    "within": f"made within {', '.join(criteria.WITHIN)}",
    "since": "made since, e.g. 2026-01-31T12:00 (UTC)",
    "until": "made before",
    "search": "an event id, a producer's id, an ordering key",
}


def add_filters(parser: ArgumentParser) -> None:
    for name, meaning in _FILTERS.items():
        parser.add_argument(f"--{name}", default="", help=meaning)


def read_filters(options: dict[str, Any]) -> Criteria:
    given = QueryDict(mutable=True)
    for name in _FILTERS:
        given["q" if name == "search" else name.replace("-", "_")] = options[name.replace("-", "_")]
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
