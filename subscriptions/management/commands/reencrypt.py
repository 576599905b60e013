"""`manage.py reencrypt`: seals every secret under the first of ENCRYPTION_KEYS."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions.actions.sealing import reencrypt_all
from subscriptions.audit import Actor
from subscriptions.secrets.vault import VaultError, vault


class Command(BaseCommand):
    help = "Seal every secret under the first key of ENCRYPTION_KEYS. Afterwards older keys can be removed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--why", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            changed = reencrypt_all(vault(), actor=Actor.of_command("reencrypt"), why=options["why"])
        except VaultError as error:
            raise CommandError(f"{error} Nothing was lost; what was sealed anew before stays so.") from None
        self.stdout.write(f"{changed} rows sealed anew; all are under the key {vault().primary!r} now.")
