"""What every page of the portal shares: its frame, its refusals, and the way back after a deed."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render as render_template

from deliveries.pages.once import refuse
from deliveries.portal import brand
from subscriptions.audit import Actor
from subscriptions.models import Consumer, PortalVisit

# The navigation: the address of each part, and its name.
SECTIONS = (
    ("portal:home", "Endpoints"),
    ("portal:deliveries", "Deliveries"),
    ("portal:events", "Events"),
    ("portal:signatures", "Debugger"),
    ("portal:catch-up", "Catch-up"),
    ("portal:keys", "API keys"),
    ("portal:notifications", "Notifications"),
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
    }  # fmt: skip
    return render_template(request, f"portal/{template}", {**frame, **context}, status=status)


def missing(request: HttpRequest, consumer: Consumer, what: str) -> HttpResponse:
    """The same for what never was and for what is somebody else's."""
    return render(
        request,
        consumer,
        "explain.html",
        title=f"There is no such {what}",
        text="It may have been deleted, or the address is mistyped.",
        status=404,
    )


def closed(request: HttpRequest) -> HttpResponse:
    return render(
        request,
        None,
        "explain.html",
        title="This page needs a fresh link",
        text="Your session has ended, or you have not opened a link yet. Ask whoever sends you webhooks for a new one.",
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
