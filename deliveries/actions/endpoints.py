"""Endpoints: changed, paused, resumed, disabled, probed, rotated, deleted."""

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from deliveries import bell
from deliveries.actions import NothingDone
from deliveries.health import lifecycle
from subscriptions import endpoints
from subscriptions.actions.changes import differing
from subscriptions.audit import Actor, record
from subscriptions.endpoints import RotatedSecret
from subscriptions.models import Endpoint, EndpointStatus, Lane


@transaction.atomic
def pause(endpoint: Endpoint, *, actor: Actor, why: str) -> None:
    _expect(endpoint, [EndpointStatus.ACTIVE])
    lifecycle.pause(endpoint, reason=_because(actor, why))
    _record(endpoint, "endpoint.paused", actor, why)


@transaction.atomic
def resume(endpoint: Endpoint, *, actor: Actor, why: str) -> None:
    _expect(endpoint, [EndpointStatus.PAUSED, EndpointStatus.DISABLED])
    lifecycle.resume(endpoint, reason=_because(actor, why))
    _record(endpoint, "endpoint.resumed", actor, why)


@transaction.atomic
def disable(endpoint: Endpoint, *, actor: Actor, why: str) -> None:
    words = _because(actor, why)
    if not lifecycle.disable(endpoint.id, reason=words, statuses=[EndpointStatus.ACTIVE, EndpointStatus.PAUSED]):
        _expect(endpoint, [])
    _record(endpoint, "endpoint.disabled", actor, why)


@transaction.atomic
def probe_now(endpoint: Endpoint, *, actor: Actor, why: str) -> None:
    """Opens the lane at once. Behind an open breaker that lets one probe out; its answer decides what follows."""
    _expect(endpoint, [EndpointStatus.ACTIVE])
    Lane.objects.filter(endpoint=endpoint).update(opens_at=timezone.now())
    _record(endpoint, "endpoint.probed", actor, why)
    transaction.on_commit(lambda: bell.ring([endpoint.id]))


@transaction.atomic
def rotate_secret(endpoint: Endpoint, *, actor: Actor, why: str, **options: Any) -> RotatedSecret:
    """The secret goes to the caller alone, to be shown once."""
    rotated = endpoints.rotate_secret(endpoint, **options)
    _record(endpoint, "endpoint.secret_rotated", actor, why)
    return rotated


@transaction.atomic
def expire_previous_secret(endpoint: Endpoint, *, actor: Actor, why: str) -> None:
    if not endpoints.expire_previous_secret(endpoint):
        raise NothingDone(_("No older secret signs any more."))
    _record(endpoint, "endpoint.previous_secret_expired", actor, why)


@transaction.atomic
def update(endpoint: Endpoint, changes: dict[str, Any], *, actor: Actor, why: str) -> Endpoint:
    before = Endpoint.objects.select_for_update(no_key=True).get(id=endpoint.id)
    changed = differing(before, changes)
    if not changed:
        return endpoint
    updated = lifecycle.update(endpoint, changes)
    _record(endpoint, "endpoint.changed", actor, why, detail=", ".join(changed))
    return updated


@transaction.atomic
def delete(endpoint: Endpoint, *, actor: Actor, why: str) -> None:
    """What it is still owed becomes dead letters."""
    if endpoints.delete(endpoint):
        _record(endpoint, "endpoint.deleted", actor, why)


def _expect(endpoint: Endpoint, statuses: list[EndpointStatus]) -> None:
    """Locks the row, so that what is decided here still holds when it is done."""
    found = Endpoint.objects.select_for_update(no_key=True).filter(id=endpoint.id).first()
    if found is None or found.deleted_at is not None:
        raise NothingDone(_("It was deleted."))
    if found.status not in statuses:
        raise NothingDone(_("It is %(state)s by now, so nothing was changed.") % {"state": _(found.status)})


def _record(endpoint: Endpoint, action: str, actor: Actor, why: str, **more: Any) -> None:
    record(actor=actor, action=action, target=endpoint.public_id, consumer=endpoint.consumer_id, why=why, **more)


def _because(actor: Actor, why: str) -> str:
    return f"by {actor.brief}: {why}"[:255] if why else f"by {actor.brief}"
