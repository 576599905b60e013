"""The language of a page: what its reader picked in the foot, else what the browser asks for, else English.

The links in the foot lead to the page itself (`?language=de`), so they work in a frame and without scripts.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import translation

COOKIE = "portal_language"
_A_YEAR = 365 * 24 * 3600


def picked(request: HttpRequest) -> str:
    """Empty where nothing was, or nothing that we speak."""
    return _known(request.GET.get("language", ""))


def of(request: HttpRequest) -> str:
    return _known(request.COOKIES.get(COOKIE, "")) or translation.get_language_from_request(request)


def keep(answer: HttpResponse, language: str) -> None:
    answer.set_cookie(
        COOKIE,
        language,
        max_age=_A_YEAR,
        path=reverse("portal:home"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _known(language: str) -> str:
    return language if language in dict(settings.LANGUAGES) else ""
