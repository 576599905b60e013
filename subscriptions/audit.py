"""The audit log: who changed what, to how many, and why. Actions write it; the API, the console and its CSV read it.

`record` belongs into the transaction of what it tells of: both happen, or neither does.
"""

import getpass
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from subscriptions import ids
from subscriptions.access.caller import Caller
from subscriptions.models import ActorKind, AuditEntry, Consumer, PortalVisit, Role

LONGEST_WHY = 500
# An entry's id is made by a web server's clock and its time by the database's: how far apart they may be.
_CLOCKS_APART = timedelta(hours=1)


class TooManyChanges(Exception):
    """A consumer has changed as much within a day as this deployment allows."""

    def __init__(self) -> None:
        super().__init__(_("As many changes as are allowed within a day have been made. Try again tomorrow."))


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something. Made by the interface that a request came through, asked for by every action."""

    kind: ActorKind
    # A user's name, `vis_…`, `key_…`, a command's name.
    id: str
    # The key's role, the portal's consumer, the account that runs the command.
    detail: str = ""

    @classmethod
    def of_key(cls, caller: Caller) -> "Actor":
        return cls(ActorKind.KEY, ids.show("key", caller.key_id), caller.role)

    @classmethod
    def of_user(cls, name: str) -> "Actor":
        return cls(ActorKind.USER, name)

    @classmethod
    def of_portal(cls, visit: PortalVisit) -> "Actor":
        return cls(ActorKind.PORTAL, visit.public_id, str(visit.consumer))

    @classmethod
    def of_command(cls, name: str) -> "Actor":
        return cls(ActorKind.COMMAND, name, f"{_account()}@{socket.gethostname()}")

    @property
    def is_consumer(self) -> bool:
        """Whether a consumer itself acts, by its own key or in its portal."""
        return self.kind == ActorKind.PORTAL or (self.kind == ActorKind.KEY and self.detail == Role.CONSUMER)

    def __str__(self) -> str:
        """`user olga`, `portal vis_… of acme`, `key key_… (producer)`, `command replay by root@host`."""
        told = {ActorKind.PORTAL: " of {}", ActorKind.KEY: " ({})", ActorKind.COMMAND: " by {}"}.get(self.kind, "")
        return f"{self.kind} {self.id}{told.format(self.detail)}"[:255]

    @property
    def brief(self) -> str:
        """How an endpoint's history names them, which its consumer reads too: `olga`, `a producer`, `the portal`."""
        known = {ActorKind.PORTAL: "the portal", ActorKind.KEY: f"a {self.detail}", ActorKind.COMMAND: "an operator"}
        return known.get(self.kind, self.id)


def record(
    *,
    actor: Actor,
    action: str,
    target: str = "",
    consumer: Consumer | UUID | None = None,
    count: int = 1,
    detail: str = "",
    why: str = "",
) -> None:
    """One entry. Called once by each action that changed something, inside its transaction."""
    _in_transaction()
    consumer_id = consumer.id if isinstance(consumer, Consumer) else consumer
    if actor.is_consumer and consumer_id is not None and not action.startswith("portal."):
        _bound_changes(consumer_id)
    AuditEntry.objects.create(
        actor_kind=actor.kind,
        actor_id=actor.id[:255],
        actor=str(actor),
        action=action,
        target=target[:255],
        consumer_id=consumer_id,
        count=count,
        detail=detail[:255],
        why=why[:LONGEST_WHY],
    )


def record_each(targets: Iterable[tuple[str, UUID | None]], *, actor: Actor, action: str, why: str) -> None:
    """An entry for each of many targets, given with its consumer, to which an operator did the same."""
    _in_transaction()
    AuditEntry.objects.bulk_create(
        AuditEntry(
            actor_kind=actor.kind, actor_id=actor.id[:255], actor=str(actor), action=action, target=target[:255],
            consumer_id=consumer_id, why=why[:LONGEST_WHY],
        )
        for target, consumer_id in targets
    )  # fmt: skip


def _in_transaction() -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("An audit entry is written in the transaction of what it tells of.")


def _bound_changes(consumer_id: UUID) -> None:
    """A consumer that changes things in a loop fills no table: each change leaves an entry that is kept for long."""
    since = ids.first_at(timezone.now() - timedelta(days=1))
    today = AuditEntry.objects.filter(consumer_id=consumer_id, id__gte=since)
    if len(today.values_list("id")[: settings.MAX_CHANGES_PER_DAY]) >= settings.MAX_CHANGES_PER_DAY:
        raise TooManyChanges


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries. What is empty does not narrow."""

    # A kind, an id or a name, or the whole of how an entry shows its actor.
    actor: str = ""
    action: str = ""
    target: str = ""
    consumer_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


def entries(wanted: Wanted) -> QuerySet[AuditEntry]:
    """In no order yet: the caller reads them by id, newest first, a page at a time."""
    rows = AuditEntry.objects.all()
    if wanted.actor in ActorKind.values:
        rows = rows.filter(actor_kind=wanted.actor)
    elif wanted.actor:
        rows = rows.filter(actor_id=_id_in(wanted.actor))
    if wanted.action:
        rows = rows.filter(action=wanted.action)
    if wanted.target:
        rows = rows.filter(target=wanted.target)
    if wanted.consumer_id:
        rows = rows.filter(consumer_id=wanted.consumer_id)
    if wanted.since:
        rows = rows.filter(at__gte=wanted.since, id__gte=ids.first_at(wanted.since - _CLOCKS_APART))
    if wanted.until:
        rows = rows.filter(at__lt=wanted.until, id__lt=ids.first_at(wanted.until + _CLOCKS_APART))
    return rows


def _id_in(text: str) -> str:
    """`key key_… (producer)` → `key_…`; an id by itself stays what it is."""
    kind, _, rest = text.partition(" ")
    return rest.split(" ")[0] if kind in ActorKind.values and rest else text


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user need not have a name.
        return "shell"
