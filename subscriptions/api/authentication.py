"""Who is calling, and may they? `Authorization: Bearer <key>`; each view names the roles it serves."""

from typing import Any, cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from subscriptions import keys
from subscriptions.audit import Actor
from subscriptions.keys import Caller


class KeyAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        if not request.headers.get("Authorization"):
            return None
        return look_again(request), None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="webhooks"'


class HasRole(BasePermission):
    """Views say `roles = {"POST": (Role.PRODUCER, …)}`. A method that names none is closed to everybody."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.user is None:
            return False
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method not in view.roles:
            raise MethodNotAllowed(method)
        return caller(request).role in view.roles[method]


def caller(request: Request) -> Caller:
    return cast(Caller, request.user)


def actor(request: Request) -> Actor:
    """Whom the audit log names for what this request changes."""
    return Actor.of_key(caller(request))


def look_again(request: Request) -> Caller:
    """Whose key it is, if it is valid at this moment."""
    secret = _secret(request)
    found = keys.verify(secret) if secret else None
    if found is None:
        raise AuthenticationFailed("The API key is unknown, expired or revoked.")
    return found


def is_known(request: Request) -> bool:
    """Whether we know who called, or did a moment ago: also where a refusal or an outage came first."""
    return getattr(request, "_user", None) is not None or keys.remembered(_secret(request)) is not None


def _secret(request: Request) -> str:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
