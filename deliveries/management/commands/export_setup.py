"""`manage.py export_setup FILE`: what `import_setup` reads, from here. Secrets only when they are asked for."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError

from deliveries.actions import exports
from deliveries.moving.exporting import export
from subscriptions.audit import Actor
from subscriptions.secrets.vault import VaultError


class Command(BaseCommand):
    help = "Export event types, consumers and endpoints to a file of JSON Lines that only its owner can read."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--with-secrets", action="store_true", help="signing secrets and extra headers too; the audit log says so"
        )
        parser.add_argument("--why", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["with_secrets"]:
            exports.secrets_exported(actor=Actor.of_command("export_setup"), why=options["why"])
        try:
            count = _write(options["file"], with_secrets=options["with_secrets"])
        except OSError as error:
            raise CommandError(f"Cannot write {options['file']}: {error.strerror}.") from None
        except VaultError as error:
            raise CommandError(f"{error} Nothing was exported.") from None
        self.stdout.write(f"{count:,} lines.")
        if not options["with_secrets"]:
            self.stdout.write("Without secrets: receivers could not verify what another sender signs.")


def _write(path: Path, *, with_secrets: bool) -> int:
    """Beside the file first, so that a stop leaves what was there; and new, so that nobody else may read it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for line in export(with_secrets=with_secrets):
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                count += 1
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count
