"""`manage.py after_restore`: once, after a dump was restored into another cluster and before anything else starts."""

from typing import Any

from django.core.management.base import BaseCommand

from deliveries.actions import restore
from subscriptions.audit import Actor


class Command(BaseCommand):
    help = "Let the feed go on after a dump was restored into a fresh cluster. Harmless when there is nothing to do."

    def handle(self, *args: Any, **options: Any) -> None:
        if restore.go_on_after_restore(actor=Actor.of_command("after_restore"), why=""):
            self.stdout.write("The feed goes on after the restored events; positions that readers hold stay true.")
        else:
            self.stdout.write("Nothing to do: the transaction counter is past every event.")
