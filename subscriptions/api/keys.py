"""consumers/{id}/keys/: a consumer's API keys, made, rotated and revoked with another key."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions import ids
from subscriptions.access import key_rules, key_tree
from subscriptions.access.scopes import KEYS_READ, KEYS_WRITE, ScopeRefused
from subscriptions.actions import keys as actions
from subscriptions.api.authentication import actor, caller, key_refused
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.serializers import KeyIn, KeyRotateIn, show_key
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


class KeyList(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}
    scopes = {"GET": KEYS_READ, "POST": KEYS_WRITE}
    parameters = {"GET": PAGE}
    fields = {"POST": KeyIn}

    def get(self, request: Request, consumer: str) -> Response:
        rows, following = page(request, ApiKey.objects.filter(consumer=consumer_or_404(request, consumer)))
        return Response({"results": [show_key(row) for row in rows], "next": following})

    def post(self, request: Request, consumer: str) -> HttpResponse:
        """201 with the key, this once. It ends no later than the key it is made with, and is revoked with it."""
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

    def delete(self, request: Request, consumer: str, key: str) -> Response:
        """204. Everything that was made with this key is revoked too."""
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

    def post(self, request: Request, consumer: str, key: str) -> HttpResponse:
        """201 with the new key, this once. The old one works until `previous_expires_at`."""
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
            return 201, {
                **_shown(rotated.key, rotated.secret),
                "previous_expires_at": rotated.previous_expires_at,
            }

        return self.once(request, work, makes_key=True)


def _shown(key: ApiKey, secret: str) -> dict[str, Any]:
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
