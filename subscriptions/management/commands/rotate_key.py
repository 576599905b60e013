"""`manage.py rotate_key key_…`: prints the new key and nothing else; the old one works on for the overlap."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions import ids
from subscriptions.access import key_rules
from subscriptions.actions import keys
from subscriptions.audit import Actor

_LONGEST_OVERLAP = 604_800


class Command(BaseCommand):
    help = "Replace an API key by a new one that may do the same. `list_keys` shows the ids."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="its id, key_…")
        parser.add_argument("--overlap-seconds", type=int, default=86_400, help="how long the old one works on")
        parser.add_argument("--why", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["overlap_seconds"] <= _LONGEST_OVERLAP:
            raise CommandError(f"--overlap-seconds is a number from 0 to {_LONGEST_OVERLAP}.")
        key_id = ids.parse("key", options["key"])
        if key_id is None:
            raise CommandError(f"There is no key {options['key']}.")
        try:
            rotated = keys.rotate(
                key_id=key_id,
                consumer=None,
                overlap_seconds=options["overlap_seconds"],
                by=None,
                actor=Actor.of_command("rotate_key"),
                why=options["why"],
            )
        except key_rules.TooManyKeys as refused:
            raise CommandError(str(refused)) from None
        if rotated is None:
            raise CommandError(f"There is no living key {options['key']}.")
        self.stdout.write(rotated.secret)
