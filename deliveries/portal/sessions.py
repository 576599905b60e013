"""In and out: a link is opened with a button, not by looking at it, and becomes a session; the session is ended."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from deliveries.portal.page import enter_as, render
from subscriptions.access import portal_visits
from subscriptions.actions import portal as actions

COOKIE = "portal_session"


def enter(request: HttpRequest, token: str) -> HttpResponse:
    """A GET only asks: mail scanners and chat previews follow links too, and must not use this one up."""
    visit = portal_visits.visit_of_link(token)
    if visit is not None:
        enter_as(request, visit)
    opened = actions.open_link(token, minutes=settings.PORTAL_SESSION_MINUTES) if request.method == "POST" else None
    if visit is None or (request.method == "POST" and opened is None):
        return render(
            request,
            None,
            "explain.html",
            title=_("This link can no longer be opened"),
            text=_("A link works once and for a few minutes. Ask whoever sends you webhooks for a new one."),
            status=404,
        )
    if opened is None:
        return render(request, None, "enter.html", title=_("Open the portal"), invited=visit.consumer)
    session, ends_at = opened
    # Whoever was in with this browser before is out.
    actions.leave(session_of(request))
    answer = HttpResponseRedirect(reverse("portal:home"))
    answer.set_cookie(
        COOKIE,
        session,
        max_age=round((ends_at - timezone.now()).total_seconds()),
        path=reverse("portal:home"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return answer


def leave(request: HttpRequest) -> HttpResponse:
    actions.leave(session_of(request))
    answer = HttpResponseRedirect(reverse("portal:left"))
    answer.delete_cookie(COOKIE, path=reverse("portal:home"))
    return answer


def left(request: HttpRequest) -> HttpResponse:
    return render(request, None, "explain.html", title=_("Session ended"), text=_("You can close this window."))


def session_of(request: HttpRequest) -> str:
    """What opens the portal for this browser; empty where nothing was opened."""
    return request.COOKIES.get(COOKIE, "")
