"""Django's middleware for pages, with a way past it for the API.

The API knows its callers by their keys and looks at no cookie, session or form token: there all of this would be work
for nothing, on every emit. `skips_api` says so to deliveries/api/answer_before_django.py: while the other middleware is
Django's own two, emits are answered without it.
"""

from collections.abc import Callable, Container
from http.cookies import Morsel
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse, QueryDict
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware

from deliveries.console import errors


class _PagesOnly:
    skips_api = True
    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path_info.startswith("/api/v1/"):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


class NoNulCharacters:
    """Pages whose address, form or cookies hold a NUL character are refused before anything reads them.

    Nothing is named so, and PostgreSQL cannot even be asked. The API refuses it by itself, as a problem document.
    """

    skips_api = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(("/admin/", "/portal/")) and _holds_nul(request):
            return errors.nul_character(request)
        return self.get_response(request)


def _holds_nul(request: HttpRequest) -> bool:
    given = [request.GET] if request.method != "POST" else [request.GET, request.POST]
    return (
        "\0" in request.path_info
        or any("\0" in value for value in request.COOKIES.values())
        or any(_has_nul(each) for each in given)
    )


def _has_nul(given: QueryDict) -> bool:
    return any("\0" in name or any("\0" in value for value in values) for name, values in given.lists())


class FramedCookies:
    """Where other origins may frame the portal (PORTAL_FRAME_ORIGINS), its cookies go along there, and only there.

    A browser keeps a partitioned cookie apart for each site that frames the page, so it names nobody elsewhere. The
    form token has a name of its own: the console's, of the same name, is not partitioned, and both would be sent.
    """

    skips_api = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not settings.PORTAL_FRAME_ORIGINS or not request.path_info.startswith("/portal/"):
            return self.get_response(request)
        if token := request.COOKIES.pop(_FRAMED_TOKEN, None):
            request.COOKIES[settings.CSRF_COOKIE_NAME] = token
        response = self.get_response(request)
        for name, cookie in list(response.cookies.items()):
            del response.cookies[name]
            shown = _FRAMED_TOKEN if name == settings.CSRF_COOKIE_NAME else name
            # Not by item: a SimpleCookie would make a plain one of it.
            dict.__setitem__(response.cookies, shown, _Partitioned(shown, cookie))
        return response


_FRAMED_TOKEN = "portal_csrf"  # noqa: S105, a cookie's name


class _Partitioned(Morsel[str]):
    """A cookie for frames of other sites. Python knows the attribute from 3.14 on."""

    def __init__(self, name: str, cookie: Morsel[str]) -> None:
        super().__init__()
        self.set(name, cookie.value, cookie.coded_value)
        self.update({key: value for key, value in cookie.items() if value})
        self.update({"samesite": "None", "secure": "yes", "path": "/portal/"})

    def OutputString(self, attrs: Container[str] | None = None) -> str:  # noqa: N802, as Python names it
        return f"{super().OutputString(attrs)}; Partitioned"


class StaticFiles(_PagesOnly, WhiteNoiseMiddleware):
    pass


class Sessions(_PagesOnly, SessionMiddleware):
    pass


class FormTokens(_PagesOnly, CsrfViewMiddleware):
    """Its look at the view itself stays for all: only views that are marked as exempt go unchecked."""


class Users(_PagesOnly, AuthenticationMiddleware):
    pass


class Messages(_PagesOnly, MessageMiddleware):
    pass


class Frames(_PagesOnly, XFrameOptionsMiddleware):
    pass
