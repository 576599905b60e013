"""`manage.py reset_second_factor NAME`: for a user who has neither their phone nor a recovery code any more."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from deliveries.actions import NothingDone
from deliveries.console.accounts import users
from subscriptions.audit import Actor


class Command(BaseCommand):
    help = "Turn off a console user's second factor, so that their password alone lets them in again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--why", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["username"]
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no user {name}.")
        actor = Actor.of_command("reset_second_factor")
        try:
            users.reset_second_factor(user, actor=actor, why=options["why"])
        except NothingDone as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"The second factor of {name} is off.")
