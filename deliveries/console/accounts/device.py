"""The cookie of a browser in which an account has logged in before: signed, and bound to the account as it is now.

A new password or another second factor makes every such cookie worthless, so nobody collects them for later guesses.
"""

import secrets

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from deliveries.console.accounts.models import SecondFactor

COOKIE = "console_device"
_SALT = "console device"
_DAYS = 90


def device_of(request: HttpRequest, username: str) -> str | None:
    """The browser's id, if this account has logged in from it; None for anybody else's cookie."""
    try:
        found = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=_DAYS * 86_400)
        name, device, mark = found
    except (signing.BadSignature, TypeError, ValueError):
        return None
    # The account is looked up only for a cookie that we made: strangers learn nothing from how long that takes.
    user = User.objects.filter(username=username).first() if name == username else None
    return str(device) if user is not None and constant_time_compare(mark, _mark(user)) else None


def remember(request: HttpRequest, response: HttpResponse, user: User) -> None:
    username = user.get_username()
    device = device_of(request, username) or secrets.token_hex(16)
    response.set_cookie(
        COOKIE,
        signing.dumps([username, device, _mark(user)], salt=_SALT),
        max_age=_DAYS * 86_400,
        path=reverse("admin:index"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _mark(user: User) -> str:
    confirmed_at = SecondFactor.objects.filter(user=user).values_list("confirmed_at", flat=True).first()
    return salted_hmac(_SALT, f"{user.get_session_auth_hash()} {confirmed_at}").hexdigest()
