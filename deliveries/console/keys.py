"""API keys: all of them, made for a role with its scopes and its end, shown once, revoked at once."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from deliveries.console.page import actor_of, back_to, hand_over, missing, render, show_once, why_of
from deliveries.pages import keyset
from subscriptions import consumers, ids
from subscriptions.access import key_tree
from subscriptions.access.key_rules import TooManyKeys
from subscriptions.access.scopes import DEFAULT, POSSIBLE, ScopeRefused, held
from subscriptions.actions import keys as actions
from subscriptions.models import ApiKey, AuditEntry, Role

ENDS = {"1": "tomorrow", "7": "in 7 days", "30": "in 30 days", "90": "in 90 days", "365": "in a year", "": "never"}
STATES = {"living": "in use", "ended": "ended", "all": "any"}
_ABOUT = "new key"
_MADE_SHOWN = 50


def index(request: HttpRequest) -> HttpResponse:
    role, state, name = (request.GET.get(key, "").strip() for key in ("role", "state", "consumer"))
    consumer = consumers.find(name) if name else None
    rows = _in_state(state).select_related("consumer")
    if role in Role.values:
        rows = rows.filter(role=role)
    if name:
        rows = rows.filter(consumer=consumer) if consumer else rows.none()
    return render(
        request,
        "keys.html",
        title="API keys",
        page=keyset.page(request, rows),
        roles=Role.values,
        role=role,
        states=STATES,
        state=state if state in STATES else "living",
        consumer=name,
        is_narrowed=bool(role or state or name),
        problem=f"There is no consumer {name}." if name and consumer is None else "",
        now=timezone.now(),
    )


def show(request: HttpRequest, public_id: str) -> HttpResponse:
    key = _find(public_id)
    if key is None:
        return missing(request, "key")
    return render(
        request,
        "key.html",
        title="API key",
        key=key,
        scopes=sorted(held(key.role, key.scopes)),
        issuer=ids.show("key", key.issued_by) if key.issued_by else "",
        # With it go all that were made with it.
        made=ApiKey.objects.filter(Q(issued_by=key.id) | Q(rotated_by=key.id)).order_by("-id")[:_MADE_SHOWN],
        entries=AuditEntry.objects.filter(target=key.public_id).order_by("-id")[:10],
        now=timezone.now(),
    )


def new(request: HttpRequest) -> HttpResponse:
    role = request.GET.get("role", "")
    role = role if role in Role.values else Role.PRODUCER.value
    typed = {"consumer": request.GET.get("consumer", ""), "ends": "90"}
    return _form(request, role, typed, ticked=DEFAULT[role])


def make(request: HttpRequest) -> HttpResponse:
    """The way to the page that shows the key once, or the form again with why there is none."""
    typed = {name: request.POST.get(name, "").strip() for name in ("role", "name", "owner", "consumer", "ends", "why")}
    ticked, role = request.POST.getlist("scopes"), typed["role"]
    if role not in Role.values:
        return back_to(request, reverse("admin:key-new"), refused="A key has a role: producer, consumer or operator.")
    problem = _problem(typed, ticked)
    consumer = consumers.find(typed["consumer"]) if role == Role.CONSUMER else None
    if not problem and role == Role.CONSUMER and consumer is None:
        problem = f"There is no consumer {typed['consumer'] or 'of that name'}."
    if problem:
        return _form(request, role, typed, ticked=ticked, problem=problem)
    days = int(typed["ends"] or 0)
    try:
        with transaction.atomic():
            key, secret = actions.issue(
                role=Role(role),
                consumer=consumer,
                name=typed["name"],
                owner=typed["owner"],
                # Its role's default scopes, whatever they become.
                scopes=None if set(ticked) == DEFAULT[role] else ticked,
                expires_at=timezone.now() + timedelta(days=days) if days else None,
                actor=actor_of(request),
                why=why_of(request),
            )
            return hand_over(request, "key-shown", about=_ABOUT, key=secret, id=key.public_id)
    except (ScopeRefused, TooManyKeys) as refused:
        return _form(request, role, typed, ticked=ticked, problem=str(refused))


def show_new(request: HttpRequest, token: str) -> HttpResponse:
    return show_once(request, "key_shown.html", token, about=_ABOUT, title="New key")


def revoke(request: HttpRequest, public_id: str) -> HttpResponse:
    key = _find(public_id)
    if key is None:
        return missing(request, "key")
    here = reverse("admin:key", args=[public_id])
    count = actions.revoke(key_id=key.id, consumer=None, actor=actor_of(request), why=why_of(request))
    if not count:
        return back_to(request, here, refused="It was revoked before.")
    more = f", and {count - 1} made with it" if count > 1 else ""
    return back_to(request, here, done=f"Revoked: it opens nothing from now on{more}.")


def _form(request: HttpRequest, role: str, typed: Mapping[str, str], *, ticked: Any, problem: str = "") -> HttpResponse:
    return render(
        request,
        "key_new.html",
        title="New API key",
        status=400 if problem else 200,
        role=role,
        roles=Role.values,
        typed=typed,
        scopes=[(scope, scope in ticked, scope in DEFAULT[role]) for scope in sorted(POSSIBLE[role])],
        ends=ENDS,
        problem=problem,
    )


def _problem(typed: Mapping[str, str], ticked: list[str]) -> str:
    if not ticked:
        return "Tick what the key may do."
    if typed["ends"] not in ENDS:
        return "Pick when the key ends."
    if len(typed["name"]) > 255 or len(typed["owner"]) > 255:
        return "A name has at most 255 characters."
    if typed["owner"] and typed["role"] == Role.CONSUMER:
        return "A consumer's key belongs to its consumer: leave the service empty."
    if typed["owner"].startswith(("key_", "con_")):
        return "The service is a name, not an id of ours."
    return ""


def _in_state(state: str) -> QuerySet[ApiKey]:
    if state == "all":
        return ApiKey.objects.all()
    if state == "ended":
        return ApiKey.objects.filter(Q(revoked_at__isnull=False) | Q(expires_at__lte=Now()))
    return key_tree.living()


def _find(public_id: str) -> ApiKey | None:
    uuid = ids.parse("key", public_id)
    return ApiKey.objects.select_related("consumer").filter(id=uuid).first() if uuid else None
