"""`manage.py after_restore`: once, after a dump was restored into another cluster and before anything else starts."""

from typing import Any

from django.core.management.base import BaseCommand

from deliveries import feed


class Command(BaseCommand):
    help = "Let the feed go on after a dump was restored into a fresh cluster. Harmless when there is nothing to do."

    def handle(self, *args: Any, **options: Any) -> None:
        if feed.go_on_after_restore():
            self.stdout.write("The feed goes on after the restored events; positions that readers hold stay true.")
        else:
            self.stdout.write("Nothing to do: the transaction counter is past every event.")
