"""Who is calling, and may they? `Authorization: Bearer <key>`; each view names the roles it serves and a scope."""

from collections.abc import Collection
from typing import Any, cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from subscriptions import keys
from subscriptions.access.caller import Caller
from subscriptions.access.scopes import ANY
from subscriptions.api.problems import Problem
from subscriptions.audit import Actor


class KeyAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        if not request.headers.get("Authorization"):
            return None
        return look_again(request), None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="webhooks"'


class HasRole(BasePermission):
    """Views say `roles = {"POST": (Role.PRODUCER, …)}` and `scopes = {"POST": EVENTS_WRITE}`. A method without roles is
    not served; one without a scope is closed to everybody. OPTIONS answers whoever has a key: what it says is in the
    API's description, which is public."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.user is None:
            return False
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method == "OPTIONS":
            return True
        if method not in view.roles:
            raise MethodNotAllowed(method)
        scope = view.scopes.get(method)
        if may(caller(request), view.roles[method], scope):
            return True
        if scope is not None and caller(request).role in view.roles[method]:
            raise Problem(403, "scope_required", f"This key does not have the scope `{scope}`.")
        return False


def may(caller: Caller, roles: Collection[str], scope: str | None) -> bool:
    """The one rule, for the views and for emits that are answered before Django."""
    return caller.role in roles and (scope in caller.scopes or scope == ANY)


def has_scope(request: Request, scope: str) -> bool:
    return scope in caller(request).scopes


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
        raise key_refused()
    return found


def key_refused() -> AuthenticationFailed:
    return AuthenticationFailed("The API key is unknown, expired or revoked.")


def is_known(request: Request) -> bool:
    """Whether we know who called, or did a moment ago: also where a refusal or an outage came first."""
    return getattr(request, "_user", None) is not None or keys.remembered(_secret(request)) is not None


def _secret(request: Request) -> str:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
