"""A consumer's own API keys: made with the scopes and the end that somebody picks, shown once, revoked."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from deliveries.pages.idempotent_forms import visitor_of
from deliveries.pages.preview import answer_preview
from deliveries.portal.page import actor, back_to, missing, render
from deliveries.portal.sessions import session_of
from subscriptions import ids
from subscriptions.access.caller import Caller
from subscriptions.access.key_rules import NotWithinIssuer, OutlivesIssuer, TooManyKeys
from subscriptions.access.key_tree import KeyEnded
from subscriptions.access.scopes import POSSIBLE, held
from subscriptions.actions import keys as actions
from subscriptions.models import ApiKey, Consumer, Role
from subscriptions.secrets import handover

# What a visitor may do in the portal: a key made there never makes further ones.
_SCOPES = sorted(POSSIBLE[Role.CONSUMER.value] - {"keys:write"})
_ENDS = {
    "7": gettext_noop("in 7 days"),
    "30": gettext_noop("in 30 days"),
    "90": gettext_noop("in 90 days"),
    "365": gettext_noop("in a year"),
    "": gettext_noop("never"),
}
_ABOUT = "portal key"
_MOST_SHOWN = 100


def index(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    problem = ""
    if request.method == "POST":
        made = _make(request, consumer)
        if isinstance(made, HttpResponse):
            return made
        problem = made
    return render(
        request,
        consumer,
        "keys.html",
        title=_("API keys"),
        section="API keys",
        keys=ApiKey.objects.filter(consumer=consumer, revoked_at__isnull=True).order_by("-id")[:_MOST_SHOWN],
        scopes=_SCOPES,
        ends=_ENDS,
        problem=problem,
        now=timezone.now(),
        status=400 if problem else 200,
    )


def _make(request: HttpRequest, consumer: Consumer) -> HttpResponse | str:
    """The way to the page that shows it once, or why there is none."""
    name, scopes, days = request.POST.get("name", "").strip()[:255], request.POST.getlist("scopes"), _days(request)
    if unknown := [scope for scope in scopes if scope not in _SCOPES]:
        return _("There is no scope %(name)s.") % {"name": unknown[0][:64]}
    if not scopes:
        return _("Pick what the key may do.")
    if days is None:
        return _("Pick when the key ends.")
    try:
        with transaction.atomic():
            issued = actions.issue(
                role=Role.CONSUMER,
                consumer=consumer,
                name=name,
                scopes=scopes,
                expires_at=timezone.now() + timedelta(days=days) if days else None,
                issued_by=_behind_the_link(request),
                actor=actor(request),
                why="",
            )
            token = handover.put({"key": issued[1]}, visitor=visitor_of(session_of(request)), about=_ABOUT)
            return back_to(request, reverse("portal:key-shown", args=[token]))
    except TooManyKeys as refused:
        return str(refused)
    except (NotWithinIssuer, KeyEnded):
        return _("The link that you came in with lets you make no keys. Ask whoever sends you webhooks.")
    except OutlivesIssuer:
        return _("The link that you came in with allows no key that lasts so long. Pick an earlier end.")


def show(request: HttpRequest, consumer: Consumer, token: str) -> HttpResponse:
    """The only page that holds a key: the first time it is loaded, in the session that made it."""
    if (early := answer_preview(request)) is not None:
        return early
    shown: dict[str, Any] | None = handover.take(token, visitor=visitor_of(session_of(request)), about=_ABOUT)
    title = _("Your new key") if shown else _("This key is shown once")
    return render(request, consumer, "key.html", title=title, section="API keys", shown=shown)


def revoke(request: HttpRequest, consumer: Consumer, key: str) -> HttpResponse:
    key_id = ids.parse("key", key)
    if key_id is None or not ApiKey.objects.filter(id=key_id, consumer=consumer).exists():
        return missing(request, consumer, "key")
    here = reverse("portal:keys")
    if not actions.revoke(key_id=key_id, consumer=consumer, actor=actor(request), why=""):
        return back_to(request, here, refused=_("It was revoked before."))
    return back_to(request, here, done=_("Revoked, with every key that was made with it."))


def _behind_the_link(request: HttpRequest) -> Caller | None:
    """The API key that asked for the link, if one did: what comes of its link ends with it, as the session does."""
    key_id = request.portal_visit.key_id  # type: ignore[attr-defined]
    key = ApiKey.objects.filter(id=key_id).first() if key_id else None
    if key is None:
        return None
    return Caller(
        key_id=key.id, role=key.role, consumer_id=key.consumer_id, owner=key.owner, scopes=held(key.role, key.scopes)
    )


def _days(request: HttpRequest) -> int | None:
    """0 for no end; None for nonsense."""
    given = request.POST.get("ends", "90")
    return int(given or 0) if given in _ENDS else None
