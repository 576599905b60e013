"""`manage.py list_keys`: the keys that work, by whom they were made and what they may do. Never the keys themselves."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions import consumers
from subscriptions.access import key_tree
from subscriptions.api.keys import show_key
from subscriptions.api.rendering import render
from subscriptions.models import Role


class Command(BaseCommand):
    help = "List the API keys that work now, newest first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--role", choices=Role.values)
        parser.add_argument("--consumer", help="the consumer's uid or id")
        parser.add_argument("--json", action="store_true", help="one object per line, with scopes and times")

    def handle(self, *args: Any, **options: Any) -> None:
        found = key_tree.living().order_by("-id")
        if options["role"]:
            found = found.filter(role=options["role"])
        if options["consumer"]:
            consumer = consumers.find(options["consumer"])
            if consumer is None:
                raise CommandError(f"There is no consumer {options['consumer']!r}.")
            found = found.filter(consumer=consumer)
        for key in found.iterator():
            shown = {**show_key(key), "owner": key.owner}
            if options["json"]:
                self.stdout.write(render(shown).decode())
            else:
                ends = f"until {key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else "no end"
                self.stdout.write(f"{key.public_id}  {key.role:<8}  …{key.hint}  {ends:<22}  {key.owner}  {key.name}")
