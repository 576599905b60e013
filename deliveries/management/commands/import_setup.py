"""`manage.py import_setup FILE`: event types, consumers and endpoints from a file of JSON Lines (docs/moving.md)."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import IO, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError

from deliveries.management.shell import table
from deliveries.moving.importing import Summary, import_file
from deliveries.moving.lines import LineKind, LineOutcome, Result
from subscriptions.audit import Actor
from subscriptions.secrets.vault import VaultError

_SHOWN = [outcome for outcome in LineOutcome if outcome is not LineOutcome.REFUSED]
_EVERY_LINES = 1000


class Command(BaseCommand):
    help = "Import event types, consumers and endpoints from a file of JSON Lines. Run it again after a stop."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="the file, or - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="say what it would do, and write nothing")
        parser.add_argument(
            "--update", action="store_true", help="change what is here to what the file says; secrets stay in any case"
        )
        parser.add_argument("--why", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        self._told_at = 0
        try:
            with _opened(options["file"]) as source:
                summary = import_file(
                    source, update=options["update"], dry_run=options["dry_run"],
                    actor=Actor.of_command("import_setup"), why=options["why"], progress=self._progress,
                )  # fmt: skip
        except OSError as error:
            raise CommandError(f"Cannot read {options['file']}: {error.strerror}.") from None
        except (OperationalError, InterfaceError, VaultError) as error:
            raise CommandError(f"{str(error).strip()} What was imported stays. Run it again to go on.") from None
        self._show(summary, options)

    def _progress(self, summary: Summary) -> None:
        if summary.lines - self._told_at >= _EVERY_LINES:
            self._told_at = summary.lines
            self.stderr.write(f"{summary.lines:,} lines read, {summary.refused:,} refused")

    def _show(self, summary: Summary, options: dict[str, Any]) -> None:
        for result in summary.told:
            self.stderr.write(_sentence(result))
        if summary.not_told:
            self.stderr.write(f"… and {summary.not_told:,} more.")
        rows = [[kind.replace("_", " "), *(summary.counts[kind, each] for each in _SHOWN)] for kind in LineKind]
        self.stdout.write(table(["", *_SHOWN], rows))
        if summary.new_secrets:
            self.stdout.write(
                f"{summary.new_secrets:,} endpoints without a secret in the file have a new one, which nobody has"
                " seen: rotate it to get one."
            )
        if options["dry_run"]:
            self.stdout.write("This was a dry run: nothing was written.")
        elif not summary.count(LineOutcome.CREATED, LineOutcome.UPDATED):
            self.stdout.write("Nothing was changed.")
        if summary.refused:
            raise CommandError(f"{summary.refused:,} of {summary.lines:,} lines were refused.")


def _opened(name: str) -> IO[bytes]:
    return sys.stdin.buffer if name == "-" else Path(name).open("rb")


def _sentence(result: Result) -> str:
    start = f"line {result.number:,}: "
    match result.outcome:
        case LineOutcome.DIFFERENT:
            return f"{start}the {result.kind} is here with other {', '.join(result.fields)}; left as it is"
        case LineOutcome.DELETED:
            return f"{start}the {result.kind} was deleted here; not made again"
        case _:
            return start + "; ".join(str(mistake) for mistake in result.mistakes)
