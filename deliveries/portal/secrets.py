"""What ends in a secret: a new endpoint, a rotation. The secret waits in a hand-over and is shown once, by `show`."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from deliveries.actions import endpoints as actions
from deliveries.api.endpoints import RotateIn
from deliveries.endpoint_tests.models import CheckUp
from deliveries.pages.idempotent_forms import visitor_of
from deliveries.pages.preview import answer_preview
from deliveries.portal import catalogue, forms, words
from deliveries.portal.endpoints import find, form_page, page_of, secrets_since
from deliveries.portal.first_steps import VERIFYING, is_verified
from deliveries.portal.page import actor, back_to, missing, render
from deliveries.portal.sessions import session_of
from deliveries.portal.snippets import Snippet, snippets
from subscriptions import endpoints
from subscriptions.actions.endpoints import create
from subscriptions.models import Consumer, Endpoint
from subscriptions.secrets import handover
from subscriptions.secrets.own_secrets import Unfit
from subscriptions.signing import schemes


def new(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    families = catalogue.families()
    if request.method == "POST":
        form = forms.read(request.POST)
    else:
        form = forms.blank(request.GET.getlist("event_types") or ["*"])
    if request.method == "POST" and not form.errors:
        try:
            with transaction.atomic():
                made, secret = create(consumer=consumer, **form.fields, actor=actor(request), why="")
                return _hand_over(request, made, secret=secret, rotated=False)
        except endpoints.TooManyEndpoints:
            form = form.refused(_("You have as many endpoints as you may have. Delete one first."))
        except endpoints.TooManyNewEndpoints:
            why = _("You have made as many endpoints as you may within a day. Change one instead, or wait.")
            form = form.refused(why)
        except Unfit as unfit:
            form.errors[unfit.pointer.removeprefix("/")] = str(unfit)
    return form_page(request, consumer, form, families, title=_("New endpoint"))


def rotate(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    overlap = forms.number(request.POST.get("overlap_seconds", "86400"))
    shape = RotateIn(data={"overlap_seconds": overlap, "force": request.POST.get("force") == "yes"})
    if not shape.is_valid():
        return back_to(request, page_of(found), refused=_("The old secret may sign for 0 to 604,800 seconds more."))
    try:
        with transaction.atomic():
            rotated = actions.rotate_secret(found, actor=actor(request), why="", **shape.validated_data)
            return _hand_over(request, found, secret=rotated.secret, rotated=True)
    except endpoints.RotationInProgress as running:
        return back_to(request, page_of(found), refused=words.rotation_refused(running))


def show(request: HttpRequest, consumer: Consumer, endpoint: str, token: str) -> HttpResponse:
    """The only page that holds a secret: the first time it is loaded, in the session that made it."""
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    if (early := answer_preview(request)) is not None:
        return early
    shown = handover.take(token, visitor=visitor_of(session_of(request)), about=found.public_id)
    return render(
        request,
        consumer,
        "secret.html" if shown else "secret_gone.html",
        title=_title(shown),
        endpoint=found,
        shown=shown,
        until=endpoints.overlap_until(found, now=timezone.now()),
        section="Endpoints",
        **(_verdict(found) if shown else {}),
        snippets=_snippets(found) if shown else [],
    )


def verified(request: HttpRequest, consumer: Consumer, endpoint: str) -> HttpResponse:
    """The line of that page which turns to "verified": a part of a page, asked for every few seconds."""
    found = find(consumer, endpoint)
    if found is None:
        return missing(request, consumer, "endpoint")
    return render(request, consumer, "verified.html", title=_("Verified"), endpoint=found, **_verdict(found))


def _verdict(endpoint: Endpoint) -> dict[str, Any]:
    """By the last check-up, if it was made with the current secret."""
    since = secrets_since(endpoint)[0]
    done = CheckUp.objects.filter(endpoint=endpoint, report__isnull=False, started_at__gt=since).first()
    report: dict[str, Any] = (done.report if done else None) or {}
    failed = [each for each in report.get("findings", []) if each["name"] in VERIFYING and each["verdict"] != "pass"]
    return {"verified": is_verified(report), "failed": failed[0] if failed else None}


def _snippets(endpoint: Endpoint) -> list[Snippet]:
    scheme = endpoint.signature_scheme
    return snippets(scheme=scheme, recipe=schemes.recipe_of(scheme), url=endpoint.url)


def _hand_over(request: HttpRequest, endpoint: Endpoint, **content: Any) -> HttpResponse:
    token = handover.put(content, visitor=visitor_of(session_of(request)), about=endpoint.public_id)
    return back_to(request, reverse("portal:secret", args=[endpoint.public_id, token]))


def _title(shown: dict[str, Any] | None) -> str:
    if shown is None:
        return _("This secret is shown once")
    return _("Your new secret") if shown["rotated"] else _("Your endpoint and its secret")
