"""`manage.py deadletters`: what is dead and why, by endpoint and reason, or one by one."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from deliveries.browse import words
from deliveries.browse.causes import causes
from deliveries.browse.walk import walk_many
from deliveries.ingest import show_time
from deliveries.management.shell import add_filters, read_filters, table


class Command(BaseCommand):
    help = "Show dead letters, grouped by endpoint and reason. `manage.py replay` takes the same filters."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_filters(parser)
        parser.add_argument("--list", action="store_true", help="one by one, newest first")
        parser.add_argument("--limit", type=int, default=50, help="how many of them (50)")
        parser.add_argument("--json", action="store_true", help="for scripts: one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = read_filters(options).filter
        if options["list"]:
            rows = walk_many(wanted, limit=options["limit"])
            found = [
                {
                    "delivery": row.public_id, "event": row.event.public_id, "event_type": row.event.type,
                    "endpoint": row.endpoint.public_id, "consumer": str(row.endpoint.consumer),
                    "reason": row.dead_reason, "attempts": row.attempt_count, "died_at": row.finished_at,
                }
                for row in rows
            ]  # fmt: skip
        else:
            found = [
                {
                    "endpoint": group.endpoint.public_id, "url": group.endpoint.url,
                    "consumer": str(group.endpoint.consumer), "reason": group.reason,
                    "mostly": group.error_kind or "", "count": group.count, "is_more": group.is_more,
                    "newest_at": group.newest_at,
                }
                for group in causes(wanted, limit=options["limit"]).groups
            ]  # fmt: skip
        self.stdout.write(json.dumps(found, default=show_time, indent=2) if options["json"] else _table(found))


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "No dead letters."
    now = timezone.now()
    head = [name for name in found[0] if name != "is_more"]

    def cell(row: dict[str, Any], name: str) -> Any:
        if name.endswith("_at"):
            return words.relative(row[name], now=now)
        return f"{row[name]:,}+" if name == "count" and row["is_more"] else row[name]

    return table(
        [name.removesuffix("_at").replace("_", " ") for name in head], [[cell(r, n) for n in head] for r in found]
    )
