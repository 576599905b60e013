"""consumers/{id}/keys/: a consumer's API keys, made, rotated and revoked with another key."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.http import HttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions import ids
from subscriptions.access import key_rules, key_tree
from subscriptions.access.scopes import DEFAULT_NAME, KEYS_READ, KEYS_WRITE, POSSIBLE, ScopeRefused, held
from subscriptions.actions import keys as actions
from subscriptions.api.authentication import actor, caller, key_refused
from subscriptions.api.describe import Operation, Page, choices, id_of
from subscriptions.api.fields import Text, Whole, Why
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.views import (
    EVERYONE,
    ApiView,
    body_object,
    consumer_or_404,
    fields_and_why,
    setting_error,
    why_of_delete,
)
from subscriptions.models import ApiKey, Role


class KeyOut(TypedDict):
    """An API key. The key itself is shown once, when it is made."""

    id: Annotated[str, id_of("key")]
    role: Annotated[str, choices(*Role.values)]
    name: Annotated[str, "For people."]
    hint: Annotated[str, "How the key begins, to tell it from others."]
    scopes: Annotated[list[str], "What it may do."]
    issued_by: Annotated[str | None, id_of("key"), "The key that made it, with which it ends; null: the command line."]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, "To within a minute or so."]


class NewKeyOut(KeyOut):
    """A new API key, shown this once."""

    key: Annotated[str, "Send it as `Authorization: Bearer …`."]


class RotatedKeyOut(NewKeyOut):
    """The key that takes another's place, shown this once."""

    previous_expires_at: Annotated[datetime | None, "Until when the old one works."]


def show_key(key: ApiKey) -> KeyOut:
    return {
        "id": key.public_id,
        "role": key.role,
        "name": key.name,
        "hint": key.hint,
        "scopes": sorted(held(key.role, key.scopes)),
        "issued_by": ids.show("key", key.issued_by) if key.issued_by else None,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


class KeyIn(serializers.Serializer[Any]):
    """A consumer's new key."""

    name = Text(required=False, allow_blank=True, max_length=255, help_text="For people.")
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="No later than the key you call with; left out, as that one."
    )
    scopes = serializers.ListField(
        child=Text(max_length=64, keywords=choices(*sorted(POSSIBLE[Role.CONSUMER.value]), DEFAULT_NAME)),
        required=False,
        allow_null=True,
        allow_empty=False,
        max_length=50,
        help_text="What it may do, no more than the key you call with may give; left out, all of that.",
    )
    why = Why()


class KeyRotateIn(serializers.Serializer[Any]):
    """How a key is replaced."""

    overlap_seconds = Whole(
        required=False, default=86_400, min_value=0, max_value=604_800, help_text="How long the old key works on."
    )
    why = Why()


class KeyList(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}
    scopes = {"GET": KEYS_READ, "POST": KEYS_WRITE}
    parameters = {"GET": PAGE}
    fields = {"POST": KeyIn}
    operations = {
        "GET": Operation("list_keys", Page[KeyOut]),
        "POST": Operation("create_key", NewKeyOut, status=201, problems=("too_many_keys",)),
    }

    def get(self, request: Request, consumer: str) -> Response:
        """List a consumer's keys, newest first."""
        rows, following = page(request, ApiKey.objects.filter(consumer=consumer_or_404(request, consumer)))
        return Response({"results": [show_key(row) for row in rows], "next": following})

    def post(self, request: Request, consumer: str) -> HttpResponse:
        """Make a key for a consumer.

        The answer holds it, this once. It ends no later than the key it is made with, and is revoked with it.
        """
        found = consumer_or_404(request, consumer)
        fields, why = fields_and_why(KeyIn(data=body_object(request)))
        expires_at = fields.get("expires_at")
        if expires_at is not None and expires_at <= timezone.now():
            raise setting_error("/expires_at", "This moment has passed.")

        def work() -> tuple[int, Any]:
            with _refusals():
                key, secret = actions.issue(
                    role=Role.CONSUMER,
                    consumer=found,
                    issued_by=caller(request),
                    **fields,
                    actor=actor(request),
                    why=why,
                )
            return 201, _shown(key, secret)

        return self.once(request, work, makes_key=True)


class KeyDetail(ApiView):
    roles = {"DELETE": EVERYONE}
    scopes = {"DELETE": KEYS_WRITE}
    operations = {"DELETE": Operation("revoke_key", status=204)}

    def delete(self, request: Request, consumer: str, key: str) -> Response:
        """Revoke a key, and everything that was made with it."""
        found = consumer_or_404(request, consumer)
        key_id, why = ids.parse("key", key), why_of_delete(request)
        if key_id is None or not actions.revoke(
            key_id=key_id, consumer=found, by=caller(request), actor=actor(request), why=why
        ):
            raise not_found("key")
        return Response(status=204)


class KeyRotate(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": KEYS_WRITE}
    fields = {"POST": KeyRotateIn}
    operations = {"POST": Operation("rotate_key", RotatedKeyOut, status=201, problems=("too_many_keys",))}

    def post(self, request: Request, consumer: str, key: str) -> HttpResponse:
        """Replace a key by a new one.

        The answer holds the new one, this once; the old one works until `previous_expires_at`. Keys made with the old
        one go on under the new one.
        """
        found = consumer_or_404(request, consumer)
        key_id = ids.parse("key", key)
        fields, why = fields_and_why(KeyRotateIn(data=body_object(request)))
        if key_id is None:
            raise not_found("key")

        def work() -> tuple[int, Any]:
            with _refusals():
                rotated = actions.rotate(
                    key_id=key_id, consumer=found, by=caller(request), **fields, actor=actor(request), why=why
                )
            if rotated is None:
                raise not_found("key")
            shown: RotatedKeyOut = {
                **_shown(rotated.key, rotated.secret),
                "previous_expires_at": rotated.previous_expires_at,
            }
            return 201, shown

        return self.once(request, work, makes_key=True)


def _shown(key: ApiKey, secret: str) -> NewKeyOut:
    key.refresh_from_db()
    return {**show_key(key), "key": secret}


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns the reasons for which no key was made into problems."""
    try:
        yield
    except ScopeRefused as refused:
        raise setting_error(f"/scopes/{refused.index}", str(refused)) from None
    except key_rules.NotWithinIssuer as refused:
        raise Problem(403, "forbidden", str(refused)) from None
    except key_rules.OutlivesIssuer:
        raise setting_error(
            "/expires_at", "The key you call with ends sooner, and what it makes ends with it."
        ) from None
    except key_rules.TooManyKeys as refused:
        raise Problem(409, "too_many_keys", str(refused)) from None
    except key_tree.KeyEnded:
        raise key_refused() from None
