"""signature-profiles/: how requests may be signed, and the ways that operators describe."""

import re
from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions.access.scopes import ENDPOINTS_READ, SIGNATURE_PROFILES_WRITE
from subscriptions.actions import signature_profiles as actions
from subscriptions.api.authentication import actor
from subscriptions.api.describe import Operation, choices
from subscriptions.api.fields import Text, Why
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.views import (
    EVERYONE,
    ApiView,
    body_object,
    fields_and_why,
    setting_error,
    why_of_delete,
)
from subscriptions.models import Role, SignatureProfile
from subscriptions.signing import schemes
from subscriptions.signing.ready_made import MEANINGS, READY_MADE
from subscriptions.signing.recipe import ENCODINGS, HASHES, KEYS, LONGEST_PART, LONGEST_SIGNED, Recipe, RefusedRecipe

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_NAME_RULE = "Small letters, digits and . _ - only, at most 64."


class RecipeOut(TypedDict):
    """How a request is signed, and in which headers."""

    signed: Annotated[str, "What the signature is made of."]
    signature_header: str
    id_header: Annotated[str | None, "null: the request has no such header."]
    timestamp_header: str | None
    attempt_header: str | None
    type_header: Annotated[str | None, "Holds the event's type."]
    hash: Annotated[str, choices(*HASHES)]
    encoding: Annotated[str, choices(*ENCODINGS)]
    key: Annotated[str, choices(*KEYS)]
    lead: str
    prefix: str
    separator: str
    second_header: str | None


class ProfileOut(RecipeOut):
    """A way of signing that an endpoint's `signature_scheme` can name."""

    name: str
    description: str
    ready_made: Annotated[bool, "Every deployment has it, and nobody changes it."]
    warnings: Annotated[list[str], "What it lacks, in words."]
    created_at: datetime | None


class ProfileListOut(TypedDict):
    """All ways of signing: ready-made ones first."""

    results: list[ProfileOut]
    next: Annotated[None, "There is no other page."]


def show_profile(profile: SignatureProfile) -> ProfileOut:
    recipe = Recipe(**profile.recipe)
    return _shown(profile.name, profile.description, recipe, ready_made=False, created_at=profile.created_at)


def _shown(name: str, description: str, recipe: Recipe, *, ready_made: bool, created_at: datetime | None) -> ProfileOut:
    own: dict[str, Any] = recipe.as_json()
    return {
        "name": name,
        "description": description,
        **own,  # type: ignore[typeddict-item]
        "ready_made": ready_made,
        "warnings": recipe.warnings,
        "created_at": created_at,
    }


def _header(what: str) -> Text:
    return Text(required=False, allow_null=True, max_length=64, help_text=f"{what} null: no such header.")


class ProfileIn(serializers.Serializer[Any]):
    """A way of signing, as you want it. How it signs is changed only while no endpoint uses it."""

    description = Text(required=False, allow_blank=True, max_length=2000, help_text="For those who choose it.")
    signed = Text(
        max_length=LONGEST_SIGNED,
        help_text="What the signature is made of: text with `{body}` once, and `{timestamp}`, `{id}` and `{url}`.",
    )
    signature_header = Text(required=False, max_length=64, help_text="`webhook-signature` if it is left out.")
    id_header = _header("Holds the event's id: `webhook-id` if it is left out.")
    timestamp_header = _header("Holds the attempt's time in seconds: `webhook-timestamp` if it is left out.")
    attempt_header = _header("Holds the attempt's number: `webhook-attempt` if it is left out.")
    type_header = _header("Holds the event's type.")
    hash = serializers.ChoiceField(HASHES, required=False, help_text="`sha1` is for old contracts only.")
    encoding = serializers.ChoiceField(ENCODINGS, required=False, help_text="How a signature is written.")
    key = serializers.ChoiceField(
        KEYS, required=False, help_text="The secret's text, or the bytes that it is the base64 of (after `whsec_`)."
    )
    lead = Text(
        required=False,
        allow_blank=True,
        max_length=LONGEST_PART,
        help_text="Stands before all signatures, and may hold `{timestamp}`: `t={timestamp},`.",
    )
    prefix = Text(
        required=False,
        allow_blank=True,
        max_length=LONGEST_PART,
        help_text="Stands before each signature: `sha256=`.",
    )
    separator = Text(
        required=False,
        allow_blank=True,
        max_length=LONGEST_PART,
        help_text="Between the two signatures of a rotation, new first: `,` if it is left out.",
    )
    second_header = _header(
        "Where receivers read one signature: during a rotation, `signature_header` goes on with the old secret, and"
        " this header has the new one's."
    )
    why = Why()


class NewProfileIn(ProfileIn):
    """A new way of signing."""

    name = Text(max_length=64, keywords={"pattern": f"^{_NAME.pattern}$"}, help_text=_NAME_RULE)

    def validate_name(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise serializers.ValidationError(_NAME_RULE)
        return name


class ProfileList(ApiView):
    roles = {"GET": EVERYONE, "POST": (Role.OPERATOR,)}
    scopes = {"GET": ENDPOINTS_READ, "POST": SIGNATURE_PROFILES_WRITE}
    fields = {"POST": NewProfileIn}
    operations = {
        "GET": Operation("list_signature_profiles", ProfileListOut),
        "POST": Operation(
            "create_signature_profile",
            ProfileOut,
            status=201,
            problems=("signature_profile_exists", "too_many_signature_profiles"),
        ),
    }

    def get(self, request: Request) -> Response:
        """List all ways of signing: the ready-made ones, then those of your operators, by name."""
        ready = [
            _shown(name, MEANINGS[name], recipe, ready_made=True, created_at=None)
            for name, recipe in READY_MADE.items()
        ]
        made = [show_profile(each) for each in SignatureProfile.objects.order_by("name")]
        return Response({"results": [*ready, *made], "next": None})

    def post(self, request: Request) -> HttpResponse:
        """Describe a way of signing, for receivers that verify another sender's requests."""
        fields, why = fields_and_why(NewProfileIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                return 201, show_profile(actions.create(**fields, actor=actor(request), why=why))
            except schemes.SchemeNameTaken:
                raise Problem(409, "signature_profile_exists", "There is a way of signing with this name.") from None
            except schemes.TooManyProfiles:
                raise Problem(
                    409, "too_many_signature_profiles", f"There are {schemes.MAX_PROFILES} already. Delete one first."
                ) from None
            except RefusedRecipe as refused:
                raise setting_error(refused.pointer, str(refused)) from None

        return self.once(request, work)


class ProfileDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": (Role.OPERATOR,), "DELETE": (Role.OPERATOR,)}
    scopes = {"GET": ENDPOINTS_READ, "PATCH": SIGNATURE_PROFILES_WRITE, "DELETE": SIGNATURE_PROFILES_WRITE}
    fields = {"PATCH": ProfileIn}
    operations = {
        "GET": Operation("get_signature_profile", ProfileOut),
        "PATCH": Operation("update_signature_profile", ProfileOut, problems=("signature_profile_in_use",)),
        "DELETE": Operation("delete_signature_profile", status=204, problems=("signature_profile_in_use",)),
    }

    def get(self, request: Request, profile: str) -> Response:
        """Read a way of signing."""
        if (ready := READY_MADE.get(profile)) is not None:
            return Response(_shown(profile, MEANINGS[profile], ready, ready_made=True, created_at=None))
        return Response(show_profile(_found(profile)))

    def patch(self, request: Request, profile: str) -> Response:
        """Change a way of signing that operators described. Fields that are not sent stay as they are.

        How it signs is not changed while an endpoint uses it: make another one, and give that to the endpoints.
        """
        found = _found(profile)
        fields, why = fields_and_why(ProfileIn(data=body_object(request), partial=True))
        try:
            return Response(show_profile(actions.update(found, fields, actor=actor(request), why=why)))
        except schemes.InUse as used:
            raise in_use(used) from None
        except RefusedRecipe as refused:
            raise setting_error(refused.pointer, str(refused)) from None

    def delete(self, request: Request, profile: str) -> Response:
        """Delete a way of signing that no endpoint uses."""
        try:
            actions.delete(_found(profile), actor=actor(request), why=why_of_delete(request))
        except schemes.InUse as used:
            raise in_use(used) from None
        return Response(status=204)


def in_use(used: schemes.InUse) -> Problem:
    return Problem(
        409, "signature_profile_in_use", f"{used} Make another profile, and change the endpoints' `signature_scheme`."
    )


def _found(name: str) -> SignatureProfile:
    found = SignatureProfile.objects.filter(name=name).first() if _NAME.fullmatch(name) else None
    if found is None:
        raise not_found("signature profile")
    return found
