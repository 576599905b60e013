"""Endpoints: created with a secret that is shown once, changed, rotated, paused, resumed, deleted."""

import base64
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from subscriptions import ids
from subscriptions.models import Consumer, Endpoint, EndpointStatus, Lane
from subscriptions.secrets.endpoint_secrets import Column, move, seal, unseal
from subscriptions.secrets.own_secrets import check_secret
from subscriptions.secrets.vault import vault
from subscriptions.signing import schemes
from subscriptions.signing.recipe import Recipe


class TooManyEndpoints(Exception):
    """The consumer has as many endpoints as this deployment allows."""


class TooManyNewEndpoints(Exception):
    """The consumer has made as many endpoints within a day as this deployment allows, deleted ones included."""


class RotationInProgress(Exception):
    """The previous secret still signs beside the current one. Another rotation would silence it at once."""

    def __init__(self, until: datetime) -> None:
        super().__init__(f"The previous secret signs until {until:%Y-%m-%d %H:%M:%S} UTC.")
        self.until = until


@dataclass(frozen=True, slots=True)
class RotatedSecret:
    secret: str
    previous_expires_at: datetime


@dataclass(slots=True)
class Room:
    """How many endpoints a consumer has, and how many it made within a day."""

    living: int = 0
    today: int = 0

    def take(self) -> None:
        """One more, or the cap that is in the way."""
        if self.living >= settings.MAX_ENDPOINTS_PER_CONSUMER:
            raise TooManyEndpoints
        if self.today >= settings.MAX_NEW_ENDPOINTS_PER_DAY:
            raise TooManyNewEndpoints
        self.living += 1
        self.today += 1


def find(public_id: str, *, consumer_id: UUID | None = None) -> Endpoint | None:
    """A living endpoint by its public id; within one consumer where one is given."""
    uuid = ids.parse("ep", public_id)
    if uuid is None:
        return None
    living = Endpoint.objects.select_related("consumer").filter(id=uuid, deleted_at__isnull=True)
    if consumer_id is not None:
        living = living.filter(consumer_id=consumer_id)
    return living.first()


@transaction.atomic
def create(
    *, consumer: Consumer, url: str, headers: dict[str, str] | None = None, secret: str | None = None, **fields: Any
) -> tuple[Endpoint, str]:
    """A new endpoint and its secret, shown this once. A caller who moves here may bring the secret that receivers hold.
    `Unfit` where scheme, secret and headers do not go together."""
    endpoint, secret = new_row(consumer=consumer, url=url, headers=headers, secret=secret, **fields)
    lock_consumers([consumer.id])
    rooms([consumer.id])[consumer.id].take()
    create_many([endpoint])
    endpoint.refresh_from_db(fields=["created_at", "updated_at"])
    return endpoint, secret


def new_row(
    *, consumer: Consumer, url: str, headers: dict[str, str] | None = None, secret: str | None = None,
    endpoint_id: UUID | None = None, **fields: Any,
) -> tuple[Endpoint, str]:  # fmt: skip
    """An endpoint that is not saved yet, with what it keeps sealed, and its secret."""
    recipe = schemes.recipe_of(fields.setdefault("signature_scheme", settings.DELIVERY_SIGNATURE_SCHEME))
    schemes.check_headers_fit(recipe, headers or {}, payload_mode=fields.get("payload_mode", ""))
    secret = _own_or_new(secret, recipe=recipe)
    endpoint_id = endpoint_id or ids.new_uuid()
    endpoint = Endpoint(
        id=endpoint_id,
        consumer=consumer,
        url=url,
        signature_profile_id=schemes.profile_of(fields["signature_scheme"]),
        secret_encrypted=seal(vault(), secret, endpoint_id=endpoint_id, column="secret_encrypted"),
        **_sealed_headers(endpoint_id=endpoint_id, headers=headers or {}),
        **{
            "event_types": ["*"],
            "max_in_flight": settings.DELIVERY_MAX_IN_FLIGHT,
            "timeout_seconds": settings.DELIVERY_TIMEOUT_SECONDS,
            **fields,
        },
    )
    return endpoint, secret


def lock_consumers(consumer_ids: Collection[UUID]) -> None:
    """Makes the cap exact: two creates at the same moment count one after the other. In id order, as by everybody."""
    list(Consumer.objects.select_for_update(no_key=True).filter(id__in=consumer_ids).order_by("id").values_list("id"))


def rooms(consumer_ids: Collection[UUID]) -> dict[UUID, Room]:
    """For each of them, counted now. Whoever creates has locked them before."""
    is_new = Q(id__gte=ids.first_at(timezone.now() - timedelta(days=1)))
    counted = (
        Endpoint.objects.filter(consumer_id__in=consumer_ids)
        .values("consumer_id")
        .annotate(living=Count("id", filter=Q(deleted_at__isnull=True)), today=Count("id", filter=is_new))
    )
    found = {row["consumer_id"]: Room(living=row["living"], today=row["today"]) for row in counted}
    return {consumer_id: found.get(consumer_id, Room()) for consumer_id in consumer_ids}


def create_many(rows: Sequence[Endpoint]) -> None:
    """Rows of `new_row`, within the transaction that has found room for them."""
    Endpoint.objects.bulk_create(rows)
    Lane.objects.bulk_create([Lane(endpoint=row) for row in rows])


def headers_of(endpoint: Endpoint) -> dict[str, str]:
    """Its extra headers with their values, which are secrets."""
    if endpoint.headers_encrypted is None:
        return {}
    sealed = bytes(endpoint.headers_encrypted)
    opened: dict[str, str] = orjson.loads(unseal(vault(), sealed, endpoint_id=endpoint.id, column="headers_encrypted"))
    return opened


def secrets_of(endpoint: Endpoint, *, now: datetime) -> tuple[str, str | None]:
    """The secret that signs, and the older one while it signs beside it."""
    columns: tuple[Column, Column] = ("secret_encrypted", "previous_secret_encrypted")
    current, previous = (
        unseal(vault(), bytes(sealed), endpoint_id=endpoint.id, column=column) if sealed else None
        for column in columns
        for sealed in [getattr(endpoint, column)]
    )
    return str(current), previous if overlap_until(endpoint, now=now) else None


def update(endpoint: Endpoint, changes: dict[str, Any]) -> Endpoint:
    """`Unfit` where a secret that signs now could not sign in the new scheme, or a header is the scheme's own."""
    changes = dict(changes)
    scheme = changes.get("signature_scheme", endpoint.signature_scheme)
    mode = changes.get("payload_mode", endpoint.payload_mode)
    if (scheme, mode) != (endpoint.signature_scheme, endpoint.payload_mode) or "headers" in changes:
        recipe = schemes.recipe_of(scheme)
        schemes.check_headers_fit(recipe, changes.get("headers", endpoint.header_names), payload_mode=mode)
        changes["signature_profile_id"] = schemes.profile_of(scheme)
        if scheme != endpoint.signature_scheme:
            _check_secrets_fit(endpoint, recipe=recipe)
    if "headers" in changes:
        changes |= _sealed_headers(endpoint_id=endpoint.id, headers=changes.pop("headers"))
    if changes:
        Endpoint.objects.filter(id=endpoint.id).update(updated_at=timezone.now(), **changes)
        endpoint.refresh_from_db()
    return endpoint


def _check_secrets_fit(endpoint: Endpoint, *, recipe: Recipe) -> None:
    """Secrets of ours fit every scheme; one that the caller brought may not."""
    columns: tuple[Column, ...] = ("secret_encrypted", "previous_secret_encrypted")
    for column in columns:
        if sealed := getattr(endpoint, column):
            check_secret(unseal(vault(), bytes(sealed), endpoint_id=endpoint.id, column=column), recipe=recipe)


@transaction.atomic
def rotate_secret(
    endpoint: Endpoint, *, overlap_seconds: int, force: bool = False, secret: str | None = None
) -> RotatedSecret:
    """A new primary secret, ours or the caller's own. The one before signs beside it until the overlap ends; an older
    one is retired at once.

    While an overlap runs, a receiver may hold either secret, so that is refused unless it is forced. The row's lock
    makes it exact: of two rotations at the same moment, the second one sees the overlap of the first.
    """
    locked = Endpoint.objects.select_for_update(no_key=True).get(id=endpoint.id)
    now = timezone.now()
    until = overlap_until(locked, now=now)
    if until is not None and not force:
        raise RotationInProgress(until)
    secret = _own_or_new(secret, recipe=schemes.recipe_of(locked.signature_scheme))
    expires_at = now + timedelta(seconds=overlap_seconds)
    previous: dict[str, Any] = {"previous_secret_encrypted": None, "previous_secret_expires_at": None}
    if overlap_seconds > 0:
        previous = {"previous_secret_encrypted": _as_previous(locked), "previous_secret_expires_at": expires_at}
    Endpoint.objects.filter(id=endpoint.id).update(
        secret_encrypted=seal(vault(), secret, endpoint_id=endpoint.id, column="secret_encrypted"),
        updated_at=now,
        **previous,
    )
    return RotatedSecret(secret=secret, previous_expires_at=expires_at)


def expire_previous_secret(endpoint: Endpoint) -> bool:
    """True if this call ended an overlap: from now on the current secret signs alone."""
    ended = Endpoint.objects.filter(id=endpoint.id, previous_secret_expires_at__gt=timezone.now()).update(
        previous_secret_encrypted=None, previous_secret_expires_at=None, updated_at=timezone.now()
    )
    return ended == 1


def _as_previous(endpoint: Endpoint) -> bytes:
    sealed = bytes(endpoint.secret_encrypted)
    return move(vault(), sealed, endpoint_id=endpoint.id, old="secret_encrypted", new="previous_secret_encrypted")


def overlap_until(endpoint: Endpoint, *, now: datetime) -> datetime | None:
    """When the previous secret stops signing. None where none signs."""
    expires_at = endpoint.previous_secret_expires_at
    return expires_at if expires_at is not None and expires_at > now else None


def pause(endpoint: Endpoint) -> bool:
    """True if this call paused it. Its deliveries wait, and no attempt is used up."""
    return _move(endpoint, old=[EndpointStatus.ACTIVE], new=EndpointStatus.PAUSED)


@transaction.atomic
def resume(endpoint: Endpoint) -> bool:
    """True if this call made it active again. What waited goes out, whatever held the lane back before."""
    moved = _move(endpoint, old=[EndpointStatus.PAUSED, EndpointStatus.DISABLED], new=EndpointStatus.ACTIVE)
    if moved:
        forget_failures(endpoint)
    return moved


def forget_failures(endpoint: Endpoint) -> None:
    """Whatever held the lane back is over. Within a transaction that has locked the endpoint."""
    # All but the allowance: behind an open breaker that is one probe, and the backlog follows with a slow start.
    Lane.objects.filter(endpoint=endpoint).update(
        opens_at=timezone.now(),
        failure_count=0,
        failing_since=None,
        last_failure_at=None,
        last_error_kind=None,
        breaker_open=False,
        cooldown_seconds=0,
        warning_count=0,
    )


def delete(endpoint: Endpoint) -> bool:
    now = timezone.now()
    return Endpoint.objects.filter(id=endpoint.id, deleted_at__isnull=True).update(deleted_at=now, updated_at=now) == 1


def _own_or_new(secret: str | None, *, recipe: Recipe) -> str:
    if secret is None:
        return new_secret()
    check_secret(secret, recipe=recipe)
    return secret


def new_secret() -> str:
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


def _move(endpoint: Endpoint, *, old: list[EndpointStatus], new: EndpointStatus) -> bool:
    moved = Endpoint.objects.filter(id=endpoint.id, status__in=old).update(
        status=new, disabled_reason="", updated_at=timezone.now()
    )
    endpoint.refresh_from_db()
    return moved == 1


def _sealed_headers(*, endpoint_id: UUID, headers: dict[str, str]) -> dict[str, Any]:
    if not headers:
        return {"headers_encrypted": None, "header_names": []}
    return {
        "headers_encrypted": seal(
            vault(), orjson.dumps(headers).decode(), endpoint_id=endpoint_id, column="headers_encrypted"
        ),
        "header_names": list(headers),
    }
