"""What is done to the console's users: added, given a role, let in or kept out, helped back in. Each leaves an entry.

There are three roles: Read-only looks, Operators act, administrators (Django's superusers) also manage users.
"""

import secrets

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from deliveries.actions import NothingDone
from deliveries.console.accounts import second_factor
from deliveries.console.accounts.sign_on import OPERATORS, READ_ONLY
from subscriptions.audit import Actor, record

ADMINISTRATORS = "Administrators"
ROLES = {
    READ_ONLY: "Sees every page and changes nothing.",
    OPERATORS: "Also replays, pauses, holds, changes limits and the catalogue, makes and revokes keys.",
    ADMINISTRATORS: "Also adds users, gives them roles and lets them back in.",
}


class UserNameTaken(Exception):
    """There is a user of this name."""


@transaction.atomic
def add(*, name: str, email: str, role: str, actor: Actor, why: str) -> tuple[User, str]:
    """The new user and a password, shown this once."""
    password = _new_password()
    try:
        with transaction.atomic():
            user = User.objects.create_user(name, email=email, password=password, is_staff=True)
    except IntegrityError:
        raise UserNameTaken from None
    _give(user, role)
    record(actor=actor, action="user.created", target=name, detail=role, why=why)
    return user, password


@transaction.atomic
def give_role(user: User, role: str, *, actor: Actor, why: str) -> None:
    locked = _lock(user)
    if role_of(locked) == role:
        raise NothingDone(f"{user} has this role already.")
    _give(locked, role)
    record(actor=actor, action="user.changed", target=user.get_username(), detail=role, why=why)


@transaction.atomic
def set_active(user: User, is_active: bool, *, actor: Actor, why: str) -> None:
    """Who is kept out is out at once: a session asks for its user with every request."""
    if not User.objects.filter(pk=user.pk, is_active=not is_active).update(is_active=is_active):
        raise NothingDone(f"{user} is {'active' if is_active else 'deactivated'} already.")
    action = "user.activated" if is_active else "user.deactivated"
    record(actor=actor, action=action, target=user.get_username(), why=why)


@transaction.atomic
def reset_password(user: User, *, actor: Actor, why: str) -> str:
    """A new password, shown this once. The user's sessions end with the old one."""
    locked, password = _lock(user), _new_password()
    locked.set_password(password)
    locked.save(update_fields=["password"])
    record(actor=actor, action="user.password_reset", target=user.get_username(), why=why)
    return password


@transaction.atomic
def reset_second_factor(user: User, *, actor: Actor, why: str) -> None:
    """For somebody who has neither their phone nor a recovery code: the password alone lets them in again."""
    if not second_factor.remove(user):
        raise NothingDone(f"{user} has no second factor.")
    record(actor=actor, action="user.second_factor_removed", target=user.get_username(), why=why)


def role_of(user: User) -> str:
    """Empty for somebody with no role, or with groups of another name."""
    if user.is_superuser:
        return ADMINISTRATORS
    held = {group.name for group in user.groups.all()}
    return next((role for role in (OPERATORS, READ_ONLY) if role in held), "")


def _give(user: User, role: str) -> None:
    user.is_superuser, user.is_staff = role == ADMINISTRATORS, True
    user.save(update_fields=["is_superuser", "is_staff"])
    user.groups.set([] if role == ADMINISTRATORS else [Group.objects.get_or_create(name=role)[0]])


def _lock(user: User) -> User:
    return User.objects.select_for_update().get(pk=user.pk)


def _new_password() -> str:
    return secrets.token_urlsafe(15)
