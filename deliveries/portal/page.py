"""What every page of the portal shares: its frame, its refusals, and the way back after a action."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render as render_template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from deliveries.pages.idempotent_forms import refuse
from deliveries.portal import brand
from subscriptions.audit import Actor
from subscriptions.models import Consumer, PortalVisit

# What may not be found, with its article where a language has one.
_NO_SUCH = {
    "endpoint": gettext_noop("There is no such endpoint"),
    "event type": gettext_noop("There is no such event type"),
    "delivery": gettext_noop("There is no such delivery"),
    "replay": gettext_noop("There is no such replay"),
    "key": gettext_noop("There is no such key"),
    "test": gettext_noop("There is no such test"),
    "address": gettext_noop("There is no such address"),
}
# The navigation: the address of each part, and its name.
SECTIONS = (
    ("portal:home", gettext_noop("Endpoints")),
    ("portal:deliveries", gettext_noop("Deliveries")),
    ("portal:events", gettext_noop("Events")),
    ("portal:signatures", gettext_noop("Debugger")),
    ("portal:catch-up", gettext_noop("Catch-up")),
    ("portal:keys", gettext_noop("API keys")),
    ("portal:notifications", gettext_noop("Notifications")),
)


def render(
    request: HttpRequest,
    consumer: Consumer | None,
    template: str,
    *,
    title: str,
    section: str = "",
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """`section` is the part of the navigation that the page belongs to."""
    frame = {
        "consumer": consumer, "title": title, "section": section, "sections": SECTIONS, "brand": brand_of(request),
        "languages": settings.LANGUAGES,
    }  # fmt: skip
    return render_template(request, f"portal/{template}", {**frame, **context}, status=status)


def missing(request: HttpRequest, consumer: Consumer, what: str) -> HttpResponse:
    """The same for what never was and for what is somebody else's."""
    return render(
        request,
        consumer,
        "explain.html",
        title=_(_NO_SUCH[what]),
        text=_("It may have been deleted, or the address is mistyped."),
        status=404,
    )


def closed(request: HttpRequest) -> HttpResponse:
    return render(
        request,
        None,
        "explain.html",
        title=_("This page needs a fresh link"),
        text=_(
            "Your session has ended, or you have not opened a link yet. Ask whoever sends you webhooks for a new one."
        ),
        status=403,
    )


def back_to(request: HttpRequest, url: str, *, done: str = "", refused: str = "") -> HttpResponse:
    """A line says what was done, or why nothing was."""
    if refused:
        return refuse(request, url, refused)
    if done:
        messages.success(request, done)
    return HttpResponseRedirect(url)


def enter_as(request: HttpRequest, visit: PortalVisit) -> None:
    """Keeps with the request whose session it came in, or whose link it would open."""
    request.portal_visit = visit  # type: ignore[attr-defined]


def actor(request: HttpRequest) -> Actor:
    """How the audit log names who did it: the session, and its consumer."""
    return Actor.of_portal(request.portal_visit)  # type: ignore[attr-defined]


def brand_of(request: HttpRequest) -> brand.Brand:
    visit: PortalVisit | None = getattr(request, "portal_visit", None)
    return brand.of(visit.branding if visit else {})
