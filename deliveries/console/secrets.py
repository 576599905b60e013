"""What is shown once to an operator: an endpoint's new secret, a link into a consumer's portal.

The form that makes it answers with a redirect. The page behind that takes it from its hand-over and is no use again.
"""

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries.actions import endpoints as actions
from deliveries.console.page import actor_of, back_to, hand_over, missing, show_once, why_of
from subscriptions import endpoints, ids
from subscriptions.actions import portal
from subscriptions.models import Consumer, Endpoint

_WHAT_FORCE_BREAKS = (
    "Rotating now would silence it at once, and a receiver that still verifies with it would refuse every request. To"
    " do it all the same, confirm that in the dialog."
)


def rotate(request: HttpRequest, endpoint: Endpoint) -> HttpResponse:
    text, why = request.POST.get("overlap_seconds", "86400"), why_of(request)
    overlap = int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else -1
    here = reverse("admin:endpoint", args=[endpoint.public_id])
    if not 0 <= overlap <= 604_800:
        return back_to(request, here, refused="The old secret may sign for 0 to 604,800 seconds more (a week).")
    if not why:
        return back_to(request, here, refused="Say why: the reason goes into the audit log.")
    force = request.POST.get("force") == "yes"
    try:
        with transaction.atomic():
            rotated = actions.rotate_secret(
                endpoint, overlap_seconds=overlap, force=force, actor=actor_of(request), why=why
            )
            return hand_over(
                request, "endpoint-secret", endpoint.public_id, about=endpoint.public_id, secret=rotated.secret
            )
    except endpoints.RotationInProgress as running:
        return back_to(request, here, refused=f"Nothing was changed. {running} {_WHAT_FORCE_BREAKS}")


def show_secret(request: HttpRequest, public_id: str, token: str) -> HttpResponse:
    uuid = ids.parse("ep", public_id)
    endpoint = Endpoint.objects.filter(id=uuid).first() if uuid else None
    if endpoint is None:
        return missing(request, "endpoint")
    until = endpoints.overlap_until(endpoint, now=timezone.now())
    return show_once(
        request, "rotated.html", token, about=public_id, title="New secret", endpoint=endpoint, until=until
    )


def make_link(request: HttpRequest, public_id: str) -> HttpResponse:
    """A way into this consumer's portal, to be handed on."""
    consumer = _consumer(public_id)
    if consumer is None:
        return missing(request, "consumer")
    with transaction.atomic():
        token, expires_at = portal.create_link(
            consumer, minutes=settings.PORTAL_LINK_MINUTES, actor=actor_of(request), why=why_of(request)
        )
        url = request.build_absolute_uri(reverse("portal:enter", args=[token]))
        until = f"{expires_at:%Y-%m-%d %H:%M:%S} UTC"
        return hand_over(request, "consumer-link", public_id, about=public_id, url=url, until=until)


def show_link(request: HttpRequest, public_id: str, token: str) -> HttpResponse:
    consumer = _consumer(public_id)
    if consumer is None:
        return missing(request, "consumer")
    return show_once(request, "portal_link.html", token, about=public_id, title="Portal link", consumer=consumer)


def _consumer(public_id: str) -> Consumer | None:
    uuid = ids.parse("con", public_id)
    return Consumer.objects.filter(id=uuid, deleted_at__isnull=True).first() if uuid else None
