"""A whole file: read line by line, imported in batches, and summed up. Told of are the first mistakes; all count."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from deliveries.actions.imports import Earlier, import_batch
from deliveries.moving.lines import Line, LineKind, LineOutcome, LineRefused, Result
from deliveries.moving.reading import read_lines
from subscriptions.audit import Actor

BATCH_LINES = 200
# A list that is longer is read by nobody; mend these, and run it again.
_MOST_TOLD = 100
_WORTH_TELLING = (LineOutcome.REFUSED, LineOutcome.DIFFERENT, LineOutcome.DELETED)


@dataclass
class Summary:
    """What an import did so far, or would do."""

    lines: int = 0
    counts: Counter[tuple[LineKind, LineOutcome]] = field(default_factory=Counter)
    refused: int = 0
    new_secrets: int = 0
    # The first results that somebody should look at, by line.
    told: list[Result] = field(default_factory=list)
    not_told: int = 0

    def add(self, result: Result) -> None:
        if result.kind is not None:
            self.counts[result.kind, result.outcome] += 1
        self.refused += result.outcome is LineOutcome.REFUSED
        self.new_secrets += result.has_new_secret
        if result.outcome in _WORTH_TELLING:
            if len(self.told) < _MOST_TOLD:
                self.told.append(result)
            else:
                self.not_told += 1

    def count(self, *outcomes: LineOutcome) -> int:
        return sum(count for (_, outcome), count in self.counts.items() if outcome in outcomes)


def import_file(
    source: IO[bytes], *, update: bool, dry_run: bool, actor: Actor, why: str, progress: Callable[[Summary], None]
) -> Summary:
    """`progress` is told after each batch, when it is committed."""
    summary, earlier, batch = Summary(), Earlier(), list[Line]()

    def write() -> None:
        for result in import_batch(batch, earlier, update=update, dry_run=dry_run, actor=actor, why=why):
            summary.add(result)
        batch.clear()
        progress(summary)

    for number, line in read_lines(source):
        summary.lines = number
        if isinstance(line, LineRefused):
            summary.add(Result(number, None, LineOutcome.REFUSED, mistakes=line.mistakes))
        else:
            batch.append(line)
        if len(batch) == BATCH_LINES:
            write()
    write()
    summary.told.sort(key=lambda result: result.number)
    return summary
