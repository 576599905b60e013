"""What an address under /admin/ and /portal/ answers when something is wrong: a page. Elsewhere, a problem document."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from deliveries.console.page import explain
from subscriptions.api import problems

_HOME, _PORTAL = "/admin/", "/portal/"


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(_PORTAL):
        return alone(request, 404, "There is nothing at this address", "The link may be old or mistyped.")
    if not request.path.startswith(_HOME):
        return problems.page_not_found(request, exception)
    return _page(
        request, 404, "There is nothing at this address",
        "The link may be old or mistyped. The box above finds anything by its id.",
    )  # fmt: skip


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not request.path.startswith(_HOME):
        return problems.permission_denied(request, exception)
    return _page(
        request, 403, "Your role does not allow this",
        "Somebody who administers users can add you to the group Operators, or to Read-only for looking around.",
    )  # fmt: skip


def nul_character(request: HttpRequest) -> HttpResponse:
    """Refused before anybody knows who is looking."""
    return alone(
        request, 400, "That holds a character that nothing is named with",
        "The address, the form or a cookie holds a NUL character (%00). Nothing was done.",
    )  # fmt: skip


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not request.path.startswith((_HOME, _PORTAL)):
        return problems.bad_request(request, exception)
    return alone(
        request, 400, "The browser's request makes no sense",
        "It is malformed or too large, or its Host is not in ALLOWED_HOSTS. Nothing was done.",
    )  # fmt: skip


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid token: usually one that was open while its session ended."""
    return alone(
        request, 403, "This form has expired",
        "Nothing was done. Go back, load the page again, and send the form once more.",
    )  # fmt: skip


def server_error(request: HttpRequest) -> HttpResponse:
    if request.path.startswith(_PORTAL):
        return alone(request, 500, "Something broke on our side", "It was logged. Load the page again in a moment.")
    if not request.path.startswith(_HOME):
        return problems.server_error(request)
    return alone(
        request, 500, "Something broke on our side",
        "It was written to the web process's log. Load the page again; if it stays broken, look there, and at /readyz.",
    )  # fmt: skip


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """In the console's frame for those who are logged in."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not user.is_staff:
        return alone(request, status, title, text)
    return explain(request, title=title, text=text, status=status).render()


def alone(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """Without the frame, which asks the database who is looking: that may be what broke."""
    home = ("Your endpoints", _PORTAL) if request.path.startswith(_PORTAL) else ("To the overview", _HOME)
    context = {"title": title, "text": text, "status": status, "home": home}
    return render(request, "console/error.html", context, status=status)
