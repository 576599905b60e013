"""`manage.py reset_second_factor NAME`: for a user who has neither their phone nor a recovery code any more."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from deliveries.console.accounts import second_factor
from subscriptions.audit import Actor, record


class Command(BaseCommand):
    help = "Turn off a console user's second factor, so that their password alone lets them in again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--why", default="", help="for the audit log")

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        name = options["username"]
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no user {name}.")
        if not second_factor.remove(user):
            raise CommandError(f"{name} has no second factor.")
        actor = Actor.of_command("reset_second_factor")
        record(actor=actor, action="user.second_factor_removed", target=name, why=options["why"])
        self.stdout.write(f"The second factor of {name} is off.")
