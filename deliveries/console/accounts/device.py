"""The cookie of a browser in which an account has logged in before, signed and bound to that account."""

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

COOKIE = "console_device"
_SALT = "console device"
_DAYS = 90


def device_of(request: HttpRequest, username: str) -> str | None:
    """The browser's id, if this account has logged in from it; None for anybody else's cookie."""
    try:
        found = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=_DAYS * 86_400)
        name, device = found
    except (signing.BadSignature, TypeError, ValueError):
        return None
    return str(device) if name == username else None


def remember(response: HttpResponse, username: str) -> None:
    response.set_cookie(
        COOKIE,
        signing.dumps([username, secrets.token_hex(16)], salt=_SALT),
        max_age=_DAYS * 86_400,
        path=reverse("admin:index"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
