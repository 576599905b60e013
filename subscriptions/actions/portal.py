"""The portal's door: links made, opened, and the sessions they became ended."""

from datetime import datetime
from typing import Any

from django.db import transaction

from subscriptions.access import portal_visits
from subscriptions.audit import Actor, record
from subscriptions.models import Consumer, PortalVisit


@transaction.atomic
def create_link(consumer: Consumer, *, minutes: int, actor: Actor, why: str, **options: Any) -> tuple[str, datetime]:
    """The token of a link, shown this once, and when it ends."""
    made = portal_visits.new_link(consumer, requested_by=str(actor), minutes=minutes, **options)
    record(actor=actor, action="portal.link_created", target=consumer.public_id, consumer=consumer, why=why)
    return made


@transaction.atomic
def open_link(token: str, *, minutes: int) -> tuple[str, datetime] | None:
    """A session's token and its end, for the one who opens the link first. The new session is the actor."""
    opened = portal_visits.open_link(token, minutes=minutes)
    visit = portal_visits.visitor(opened[0]) if opened else None
    if visit is not None:
        _record(visit, "portal.opened")
    return opened


@transaction.atomic
def leave(session: str) -> bool:
    """True if this call ended it: the session is the actor. A token that opens nothing ends nothing."""
    visit = portal_visits.visitor(session)
    if visit is None or not portal_visits.end_session(session):
        return False
    _record(visit, "portal.left")
    return True


def _record(visit: PortalVisit, action: str) -> None:
    consumer = visit.consumer
    record(actor=Actor.of_portal(visit), action=action, target=consumer.public_id, consumer=consumer)
