"""Single sign-on with an OpenID Connect provider, by Authlib: authorization code with PKCE, state and nonce.

Off unless OIDC_ISSUER is set. Who may enter is the provider's word: the groups in a claim say whether somebody
operates, looks, or stays outside, at every login anew. A person is known by issuer and subject, never by a name or an
address that somebody else might hold, so nobody becomes a local user of the same name.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from deliveries.console.accounts.login import SIGNED_ON, client_address
from deliveries.console.accounts.models import SignOnIdentity
from deliveries.console.accounts.throttle import Bucket, network_of, take
from subscriptions.audit import Actor, record

OPERATORS, READ_ONLY = "Operators", "Read-only"
_TIMEOUT_SECONDS = 5
_NEXT = "sign_on_next"
# How often one address may begin (each begins a session) before it has to wait.
_STARTS_PER_ADDRESS = 60
# An unfinished sign-on is forgotten after this (seconds).
_UNFINISHED_SECONDS = 600


class NotAdmitted(Exception):
    """The provider knows this person, and none of their groups may enter."""


class SignOnRefused(Exception):
    """What came back from the provider, or was made up, does not hold. The reason is for the log."""


class Unavailable(Exception):
    """The provider did not answer. The reason is for the log."""


class TooMany(Exception):
    """One address has begun as many sign-ons as it may for a while."""


def is_on() -> bool:
    return bool(settings.OIDC_ISSUER)


def start(request: HttpRequest) -> HttpResponse:
    """To the provider. Where to go afterwards stays in the session."""
    if not take([Bucket(f"sign-on:{network_of(client_address(request))}", _STARTS_PER_ADDRESS)]):
        raise TooMany
    wanted = request.GET.get("next", "")
    try:
        answer: HttpResponse = _client().authorize_redirect(request, request.build_absolute_uri(_callback()))
    except Exception as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from error
    request.session[_NEXT] = wanted if url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) else ""
    if not request.user.is_authenticated:
        request.session.set_expiry(_UNFINISHED_SECONDS)
    return answer


def finish(request: HttpRequest) -> HttpResponse:
    """Back from the provider: checks what it says, and opens a session for the person."""
    claims = _claims(request)
    subject = str(claims.get("sub", ""))
    names = (subject, str(claims.get("email")), str(claims.get("preferred_username")))
    if not 1 <= len(subject) <= 255 or any("\0" in name for name in names):
        raise SignOnRefused("the claims hold no subject, or one that cannot be stored")
    try:
        user = admit(claims, subject=subject)
    except IntegrityError as error:
        # Two first logins of one person at the same moment.
        raise SignOnRefused("somebody was made at the same moment") from error
    wanted = request.session.pop(_NEXT, "")
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    request.session.set_expiry(None)
    request.session[SIGNED_ON] = True
    return HttpResponseRedirect(wanted or reverse("admin:index"))


def _claims(request: HttpRequest) -> Mapping[str, Any]:
    """What the provider says of the person, its signature checked."""
    # Only where single sign-on is used: an extra of its own (`pip install .[sso]`).
    from requests import RequestException

    try:
        claims: Mapping[str, Any] = _client().authorize_access_token(request)["userinfo"]
    except RequestException as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from error
    except Exception as error:
        raise SignOnRefused(f"{type(error).__name__}: {error}") from error
    return claims


def admit(claims: Mapping[str, Any], *, subject: str) -> User:
    """The user behind these claims, made at the first login, with the role their groups give them now."""
    role = role_of(claims)
    known = SignOnIdentity.objects.select_related("user").filter(issuer=settings.OIDC_ISSUER, subject=subject).first()
    if role is None and known is not None:
        _shut_out(known.user)
    if role is None or (known is not None and not known.user.is_active):
        raise NotAdmitted
    with transaction.atomic():
        user = known.user if known else _new_user(claims, subject=subject)
        before = (user.is_staff, *user.groups.values_list("name", flat=True))
        user.is_staff, user.email = True, str(claims.get("email") or "")[:254]
        user.save(update_fields=["is_staff", "email"])
        user.groups.set([Group.objects.get_or_create(name=role)[0]])
        if before != (True, role):
            _record(user, "user.changed" if known else "user.created", detail=role)
    return user


@transaction.atomic
def _shut_out(user: User) -> None:
    if User.objects.filter(pk=user.pk, is_staff=True).update(is_staff=False):
        _record(user, "user.changed", detail="no group that may enter")


def _record(user: User, action: str, *, detail: str) -> None:
    """The provider's word, brought by the person themselves."""
    record(actor=Actor.of_user(user.get_username()), action=action, target=user.get_username(), detail=detail)


def role_of(claims: Mapping[str, Any]) -> str | None:
    """Operators before Read-only; None for somebody in none of the groups that may enter."""
    groups = _groups(claims)
    if groups & set(settings.OIDC_OPERATOR_GROUPS):
        return OPERATORS
    return READ_ONLY if groups & set(settings.OIDC_READ_ONLY_GROUPS) else None


def _groups(claims: Mapping[str, Any]) -> set[str]:
    """The claim may lie deeper: `realm_access.roles`."""
    found: Any = claims
    for step in settings.OIDC_GROUPS_CLAIM.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    values = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return {str(value) for value in values}


def _new_user(claims: Mapping[str, Any], *, subject: str) -> User:
    """With no password. Somebody whose name is taken is told apart by a few letters of who they are at the provider."""
    name = str(claims.get("email") or claims.get("preferred_username") or subject)[:130]
    if User.objects.filter(username__iexact=name).exists():
        name += f"-{hashlib.sha256(f'{settings.OIDC_ISSUER} {subject}'.encode()).hexdigest()[:8]}"
    user = User(username=name)
    user.set_unusable_password()
    user.save()
    SignOnIdentity.objects.create(user=user, issuer=settings.OIDC_ISSUER, subject=subject)
    return user


def _callback() -> str:
    return reverse("admin:sign-on-callback")


def _client() -> Any:
    return _registered(settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET)


@lru_cache(maxsize=4)
def _registered(issuer: str, client_id: str, client_secret: str) -> Any:
    # Only where single sign-on is used: an extra of its own (`pip install .[sso]`).
    from authlib.integrations.django_client import OAuth

    oauth = OAuth()
    oauth.register(
        "console",
        client_id=client_id,
        client_secret=client_secret,
        server_metadata_url=f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": settings.OIDC_SCOPE,
            "code_challenge_method": "S256",
            "default_timeout": _TIMEOUT_SECONDS,
        },
    )
    return oauth.console
