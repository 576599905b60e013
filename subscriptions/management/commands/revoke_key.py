"""`manage.py revoke_key key_…`: ends a key at once, and everything that was made with it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions import ids
from subscriptions.actions import keys
from subscriptions.audit import Actor


class Command(BaseCommand):
    help = "Revoke an API key, the keys made with it and their links to the portal. `list_keys` shows the ids."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="its id, key_…")
        parser.add_argument("--why", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        key_id = ids.parse("key", options["key"])
        who = Actor.of_command("revoke_key")
        revoked = keys.revoke(key_id=key_id, consumer=None, actor=who, why=options["why"]) if key_id else 0
        if not revoked:
            raise CommandError(f"There is no key {options['key']} to revoke.")
        self.stdout.write(
            "Revoked 1 key." if revoked == 1 else f"Revoked {revoked} keys: it and what was made with it."
        )
