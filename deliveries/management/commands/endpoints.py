"""`manage.py endpoints`: which there are and how they do; pause, resume, disable, probe one."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from deliveries.actions import NothingDone
from deliveries.actions import endpoints as actions
from deliveries.browse import words
from deliveries.management.shell import table
from subscriptions import consumers, endpoints
from subscriptions.audit import Actor
from subscriptions.models import Endpoint, EndpointStatus

ACTIONS = {
    "pause": actions.pause,
    "resume": actions.resume,
    "disable": actions.disable,
    "probe": actions.probe_now,
}


class Command(BaseCommand):
    help = "List endpoints with their health, or act on one: manage.py endpoints pause ep_… --why …"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", nargs="?", default="list", choices=["list", *ACTIONS])
        parser.add_argument("endpoint", nargs="?", default="", help="ep_… of the endpoint to act on")
        parser.add_argument("--consumer", default="", help="only those of this consumer (uid or con_…)")
        parser.add_argument("--status", default="", choices=["", "failing", *EndpointStatus.values])
        parser.add_argument("--why", default="", help="for the audit log")
        parser.add_argument("--limit", type=int, default=100, help="how many (100)")
        parser.add_argument("--json", action="store_true", help="for scripts: one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] != "list":
            self._act(options)
            return
        rows = Endpoint.objects.select_related("consumer", "lane").filter(deleted_at__isnull=True)
        if name := options["consumer"]:
            consumer = consumers.find(name)
            if consumer is None:
                raise CommandError(f"There is no consumer {name}.")
            rows = rows.filter(consumer=consumer)
        if options["status"] == "failing":
            rows = rows.filter(lane__failure_count__gt=0)
        elif options["status"]:
            rows = rows.filter(status=options["status"])
        self._show(list(rows.order_by("-id")[: options["limit"]]), as_json=options["json"])

    def _act(self, options: dict[str, Any]) -> None:
        endpoint = endpoints.find(options["endpoint"])
        if endpoint is None:
            raise CommandError(f"There is no endpoint {options['endpoint'] or '(name one: ep_…)'}.")
        if not options["why"]:
            raise CommandError("Say why with --why: the reason goes into the audit log.")
        try:
            ACTIONS[options["action"]](endpoint, actor=Actor.of_command("endpoints"), why=options["why"])
        except NothingDone as error:
            raise CommandError(str(error)) from None
        endpoint.refresh_from_db()
        self._show([endpoint], as_json=options["json"])

    def _show(self, found: list[Endpoint], *, as_json: bool) -> None:
        shown = [_row(endpoint) for endpoint in found]
        if as_json:
            self.stdout.write(json.dumps(shown, indent=2))
        elif shown:
            self.stdout.write(table(list(shown[0]), [list(row.values()) for row in shown]))
        else:
            self.stdout.write("No endpoints.")


def _row(endpoint: Endpoint) -> dict[str, Any]:
    lane, now = endpoint.lane, timezone.now()
    breaker = "closed"
    if lane.breaker_open:
        breaker = f"open, probe {words.relative(lane.opens_at, now=now)}" if lane.opens_at > now else "open, probing"
    return {
        "endpoint": endpoint.public_id, "consumer": str(endpoint.consumer), "url": endpoint.url,
        "status": endpoint.status, "failures in a row": lane.failure_count, "breaker": breaker,
    }  # fmt: skip
