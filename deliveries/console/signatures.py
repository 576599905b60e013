"""How requests may be signed: the ready-made ways, and the profiles that operators make for receivers of other senders.

A form is turned into what the API's own shape checks, so a page takes nothing that the API would refuse.
"""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from deliveries.console.page import actor_of, back_to, first_error, missing, render, why_of
from deliveries.signing.closures import Headers, Message, compiled
from subscriptions.actions import signature_profiles as actions
from subscriptions.api.signature_profiles import NewProfileIn, ProfileIn
from subscriptions.models import AuditEntry, Endpoint, SignatureProfile
from subscriptions.signing import schemes
from subscriptions.signing.ready_made import MEANINGS, READY_MADE
from subscriptions.signing.recipe import ENCODINGS, FIELDS, HASHES, KEYS, Recipe, RefusedRecipe

_TEXTS = ("signed", "signature_header", "lead", "prefix", "separator", "hash", "encoding", "key")
# Left empty, the request has no such header.
_OPTIONAL = ("id_header", "timestamp_header", "attempt_header", "type_header", "second_header")
_USERS_SHOWN = 20
ACTIONS = {"change", "delete"}
# What the example on a page is made of.
_EXAMPLE = Message(
    "evt_01m7h3xmx1es6vbckezbxg7h8a", "invoice.paid", 1794796522, 1, "https://globex.example/hook", b"{}"
)
_EXAMPLE_SECRETS = ("the-new-secret-of-the-example", "the-old-secret-of-the-example")


class _Unreadable(Exception):
    """What was typed describes no way of signing. Says what."""


def index(request: HttpRequest) -> HttpResponse:
    made = list(SignatureProfile.objects.order_by("name"))
    rows = [
        *(_row(name, MEANINGS[name], recipe, is_ready_made=True) for name, recipe in READY_MADE.items()),
        *(_row(each.name, each.description, Recipe(**each.recipe), is_ready_made=False) for each in made),
    ]
    return render(request, "signatures.html", title="Signatures", rows=rows)


def show(request: HttpRequest, name: str) -> HttpResponse:
    if (ready := READY_MADE.get(name)) is not None:
        return _page(request, _row(name, MEANINGS[name], ready, is_ready_made=True), {})
    found = SignatureProfile.objects.filter(name=name).first()
    return missing(request, "signature profile") if found is None else _own_page(request, found)


def new(request: HttpRequest) -> HttpResponse:
    return _form(request, _values(Recipe(signed="{timestamp}.{body}")))


def make(request: HttpRequest) -> HttpResponse:
    typed = _typed(request)
    try:
        fields = _checked(NewProfileIn(data={"name": typed["name"].strip(), **_given(typed)}))
        made = actions.create(**fields, actor=actor_of(request), why=why_of(request))
    except schemes.SchemeNameTaken:
        return _form(request, typed, problem="There is a way of signing with this name.")
    except schemes.TooManyProfiles:
        return _form(request, typed, problem=f"There are {schemes.MAX_PROFILES} already. Delete one first.")
    except (_Unreadable, RefusedRecipe) as error:
        return _form(request, typed, problem=_told(error))
    return back_to(request, reverse("admin:signature", args=[made.name]), done="Made. Endpoints may use it now.")


def act(request: HttpRequest, name: str, action: str) -> HttpResponse:
    found = SignatureProfile.objects.filter(name=name).first()
    if found is None or action not in ACTIONS:
        return missing(request, "signature profile" if found is None else "action")
    here, typed = reverse("admin:signature", args=[name]), _typed(request)
    try:
        if action == "delete":
            actions.delete(found, actor=actor_of(request), why=why_of(request))
            return back_to(request, reverse("admin:signatures"), done=f"{name} is deleted.", stay=True)
        changes = _checked(ProfileIn(data=_given(typed), partial=True))
        actions.update(found, changes, actor=actor_of(request), why=why_of(request))
    except schemes.InUse as used:
        return back_to(request, here, refused=f"{used} Make another one, and give that to the endpoints.")
    except (_Unreadable, RefusedRecipe) as error:
        return _own_page(request, found, typed=typed, problem=_told(error))
    return back_to(request, here, done="Saved.")


def _row(name: str, description: str, recipe: Recipe, *, is_ready_made: bool) -> dict[str, Any]:
    return {"name": name, "description": description, "recipe": recipe, "is_ready_made": is_ready_made}


def _own_page(
    request: HttpRequest, found: SignatureProfile, *, typed: Mapping[str, str] | None = None, problem: str = ""
) -> HttpResponse:
    recipe = Recipe(**found.recipe)
    living = Endpoint.objects.filter(signature_profile=found, deleted_at__isnull=True)
    return _page(
        request,
        _row(found.name, found.description, recipe, is_ready_made=False),
        typed or {**_values(recipe), "description": found.description},
        problem=problem,
        count=living.count(),
        using=living.select_related("consumer").order_by("id")[:_USERS_SHOWN],
        entries=AuditEntry.objects.filter(target=found.name, action__startswith="signature_profile.").order_by("-id")[
            :10
        ],
    )


def _page(
    request: HttpRequest, row: dict[str, Any], typed: Mapping[str, str], *, problem: str = "", **context: Any
) -> HttpResponse:
    return render(
        request,
        "signature.html",
        title="Signature",
        status=400 if problem else 200,
        problem=problem,
        typed=typed,
        examples=_examples(row["recipe"]),
        **row,
        **_choices(),
        **context,
    )


def _form(request: HttpRequest, typed: Mapping[str, str], *, problem: str = "") -> HttpResponse:
    return render(
        request,
        "signature_new.html",
        title="New signature profile",
        status=400 if problem else 200,
        typed=typed,
        problem=problem,
        **_choices(),
    )


def _examples(recipe: Recipe) -> dict[str, Headers]:
    """The headers that this recipe writes, of one request."""
    write = compiled(recipe)
    return {
        "With one secret": write(_EXAMPLE_SECRETS[:1], _EXAMPLE),
        "With two, while the secret is being rotated": write(_EXAMPLE_SECRETS, _EXAMPLE),
    }


def _choices() -> dict[str, Any]:
    return {"hashes": HASHES, "encodings": ENCODINGS, "keys": KEYS}


def _values(recipe: Recipe) -> dict[str, str]:
    return {name: getattr(recipe, name) or "" for name in FIELDS}


def _typed(request: HttpRequest) -> dict[str, str]:
    return {name: request.POST.get(name, "") for name in ("name", "description", "why", *_TEXTS, *_OPTIONAL)}


def _given(typed: Mapping[str, str]) -> dict[str, Any]:
    headers = {name: typed[name].strip() or None for name in _OPTIONAL}
    return {"description": typed["description"], **{name: typed[name] for name in _TEXTS}, **headers}


def _checked(shape: ProfileIn) -> dict[str, Any]:
    if not shape.is_valid():
        raise _Unreadable(first_error(shape.errors))
    fields = dict(shape.validated_data)
    fields.pop("why", None)
    return fields


def _told(error: Exception) -> str:
    place = error.pointer.removeprefix("/").replace("_", " ") if isinstance(error, RefusedRecipe) else ""
    return f"{place}: {error}" if place else str(error)
