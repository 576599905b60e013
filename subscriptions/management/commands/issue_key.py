"""`manage.py issue_key --role producer|operator` or `--role consumer --consumer UID`: prints a key and nothing else."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions import consumers
from subscriptions.actions import keys
from subscriptions.audit import Actor
from subscriptions.models import Role


class Command(BaseCommand):
    help = "Issue an API key and print it. It is shown this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--role", required=True, choices=Role.values)
        parser.add_argument("--consumer", help="the consumer's uid or id, for --role consumer")
        parser.add_argument("--name", default="", help="a note for people")
        parser.add_argument(
            "--owner", default="", help="whose idempotency keys these are; keys of one service share an owner"
        )
        parser.add_argument("--why", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        role = Role(options["role"])
        if (role is Role.CONSUMER) != bool(options["consumer"]):
            raise CommandError("--role consumer needs --consumer UID, and no other role takes it.")
        consumer = None
        if options["consumer"]:
            consumer = consumers.find(options["consumer"])
            if consumer is None:
                raise CommandError(
                    f"There is no consumer {options['consumer']!r}. Create it with POST /api/v1/consumers/."
                )
        _, secret = keys.issue(
            role=role,
            consumer=consumer,
            name=options["name"],
            owner=options["owner"],
            actor=Actor.of_command("issue_key"),
            why=options["why"],
        )
        self.stdout.write(secret)
