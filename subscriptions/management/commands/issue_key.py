"""`manage.py issue_key --role producer|operator` or `--role consumer --consumer UID`: prints a key and nothing else."""

from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from subscriptions import consumers
from subscriptions.access import key_rules, scopes
from subscriptions.actions import keys
from subscriptions.audit import Actor
from subscriptions.models import Consumer, Role
from subscriptions.reading.times import read_time

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# Consumers own their keys under their ids, and keys that name no owner are their own.
_TAKEN_OWNERS = ("con_", "key_")


class Command(BaseCommand):
    help = "Issue an API key and print it. It is shown this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--role", required=True, choices=Role.values)
        parser.add_argument("--consumer", help="the consumer's uid or id, for --role consumer")
        parser.add_argument("--name", default="", help="a note for people")
        parser.add_argument(
            "--owner", default="", help="the service it belongs to: its keys share idempotency keys and a rate limit"
        )
        parser.add_argument(
            "--scope",
            action="append",
            metavar="NAME",
            help="what it may do, once for each; without any, what its role may by default."
            f" `{scopes.DEFAULT_NAME}` stands for those. There are {', '.join(sorted(scopes.ALL))}",
        )
        parser.add_argument("--why", default="", help="for the audit log")
        ends = parser.add_mutually_exclusive_group()
        ends.add_argument("--expires-in", metavar="TIME", help="how long it works, e.g. 90d, 12h, 30m")
        ends.add_argument("--expires-at", metavar="TIME", help="until when it works, e.g. 2030-01-31T12:00:00Z")

    def handle(self, *args: Any, **options: Any) -> None:
        role = Role(options["role"])
        if options["owner"].startswith(_TAKEN_OWNERS) or len(options["owner"]) > 255:
            raise CommandError("--owner is the name of a service: not an id, and at most 255 characters.")
        try:
            _, secret = keys.issue(
                role=role,
                consumer=_consumer(role, options["consumer"]),
                name=options["name"],
                owner=options["owner"],
                expires_at=_end(options["expires_in"], options["expires_at"]),
                scopes=options["scope"],
                actor=Actor.of_command("issue_key"),
                why=options["why"],
            )
        except (scopes.ScopeRefused, key_rules.TooManyKeys) as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(secret)


def _consumer(role: Role, name: str | None) -> Consumer | None:
    if (role is Role.CONSUMER) != bool(name):
        raise CommandError("--role consumer needs --consumer UID, and no other role takes it.")
    if not name:
        return None
    consumer = consumers.find(name)
    if consumer is None:
        raise CommandError(f"There is no consumer {name!r}. Create it with POST /api/v1/consumers/.")
    return consumer


def _end(length: str | None, at: str | None) -> datetime | None:
    if length is None and at is None:
        return None
    try:
        end = timezone.now() + _length(length) if length is not None else read_time(str(at), zone=True)
    except (ValueError, KeyError, IndexError, OverflowError):
        end = None
    if end is None or end <= timezone.now():
        raise CommandError("Write --expires-in as 90d, 12h, 30m or 45s, --expires-at as 2030-01-31T12:00:00Z, to come.")
    return end


def _length(text: str) -> timedelta:
    return timedelta(seconds=int(text[:-1]) * _UNITS[text[-1]])
