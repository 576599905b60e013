"""`manage.py replay`: dead letters again, with a preview, a rate, a progress bar and a way to cancel.

The job runs in the background worker, not in this command: Ctrl-C stops the watching and nothing else.
"""

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from deliveries.actions import replays as actions
from deliveries.api.show import show_replay
from deliveries.browse.matched import Matched, matched
from deliveries.management.shell import add_filters, progress, read_filters, table
from deliveries.replaying.models import Replay, ReplayStatus
from subscriptions import ids
from subscriptions.audit import Actor
from subscriptions.models import Endpoint


class Command(BaseCommand):
    help = "Replay the dead letters that match; or watch or cancel a replay by its id."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", nargs="?", default="", help="rpl_… of a replay to watch or cancel")
        add_filters(parser)
        parser.add_argument(
            "--all", action="store_true", help="every dead letter of everybody; needed without a filter"
        )
        parser.add_argument("--rate", type=int, help="at most so many per second")
        parser.add_argument("--why", default="", help="for the audit log; needed to start or cancel one")
        parser.add_argument("--dry-run", action="store_true", help="say what would go, and do nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--no-wait", action="store_true", help="start it and return")
        parser.add_argument("--cancel", action="store_true", help="cancel the job that is named")
        parser.add_argument("--json", action="store_true", help="for scripts: one JSON document, no questions")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["job"]:
            job = _find(options["job"])
            if options["cancel"]:
                self._cancel(job, options)
        else:
            found = self._start(options)
            if found is None:
                return
            job = found
        if not options["no_wait"]:
            self._watch(job, quiet=options["json"])
        if options["json"]:
            self.stdout.write(json.dumps(show_replay(job), indent=2))

    def _start(self, options: dict[str, Any]) -> Replay | None:
        asked = read_filters(options)
        if not (asked.is_narrowed or options["all"]):
            raise CommandError("Say which dead letters with a filter (--help shows them), or --all for every one.")
        found = matched(asked.filter)
        # Nothing found among those looked at is not nothing at all.
        if options["dry_run"] or not (found.count or found.is_more):
            self._show_preview(found, as_json=options["json"])
            return None
        if not options["why"]:
            raise CommandError("Say why with --why: the reason goes into the audit log.")
        if options["rate"] is not None and not 1 <= options["rate"] <= 10_000:
            raise CommandError("--rate takes a number from 1 to 10000.")
        if not options["yes"] and not options["json"]:
            self._show_preview(found, as_json=False)
            if input(f"Replay {_how_many(found)}? [y/N] ").strip().lower() != "y":
                raise CommandError("Nothing was done.")
        try:
            return actions.start(
                asked.filter,
                consumer=asked.consumer,
                rate_per_second=options["rate"],
                actor=Actor.of_command("replay"),
                why=options["why"],
            )
        except actions.TooManyReplays as error:
            raise CommandError(str(error)) from None

    def _cancel(self, job: Replay, options: dict[str, Any]) -> None:
        if not options["why"]:
            raise CommandError("Say why with --why: the reason goes into the audit log.")
        if not actions.cancel(job, actor=Actor.of_command("replay"), why=options["why"]):
            raise CommandError(f"It is {job.status} already; nothing is left to cancel.")

    def _show_preview(self, found: Matched, *, as_json: bool) -> None:
        known = Endpoint.objects.select_related("consumer").in_bulk([each for each, _ in found.by_endpoint])
        rows = [
            {"endpoint": known[each].public_id, "url": known[each].url, "consumer": str(known[each].consumer),
             "status": known[each].status, "matched": count}
            for each, count in found.by_endpoint
        ]  # fmt: skip
        if as_json:
            shown = {"matched": found.count, "matched_is_minimum": found.is_more, "by_endpoint": rows}
            self.stdout.write(json.dumps(shown, indent=2))
        elif rows or found.is_more:
            self.stdout.write(table(list(rows[0]), [list(row.values()) for row in rows]) if rows else "")
            self.stdout.write(f"{_how_many(found)} would go out again.")
        else:
            self.stdout.write("No dead letter matches.")

    def _watch(self, job: Replay, *, quiet: bool) -> None:
        on_a_terminal = self.stdout.isatty()
        while True:
            job.refresh_from_db()
            running = job.status == ReplayStatus.RUNNING
            if not quiet and (on_a_terminal or not running):
                line = f"{job.public_id}  {job.status:9}  {progress(job.replayed, job.matched)}"
                self.stdout.write(
                    f"\r{line}" if on_a_terminal else line, ending="" if on_a_terminal and running else "\n"
                )
                self.stdout.flush()
            if not running:
                return
            time.sleep(0.5)


def _how_many(found: Matched) -> str:
    noun = "delivery" if found.count == 1 and not found.is_more else "deliveries"
    return f"{found.count:,} {noun}{' or more (not all were counted)' if found.is_more else ''}"


def _find(public_id: str) -> Replay:
    uuid = ids.parse("rpl", public_id)
    job = Replay.objects.filter(id=uuid).first() if uuid else None
    if job is None:
        raise CommandError(f"There is no replay {public_id}.")
    return job
