"""Django's middleware for pages, with a way past it for the API.

The API knows its callers by their keys and looks at no cookie, session or form token: there all of this would be work
for nothing, on every emit.
"""

from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware


class _PagesOnly:
    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path_info.startswith("/api/v1/"):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


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
