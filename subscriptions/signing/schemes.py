"""What `signature_scheme` names: a recipe that every deployment has, or a profile that its operators made."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils.translation import gettext as _

from subscriptions.guards.headers import folded
from subscriptions.models import Endpoint, PayloadMode, SignatureProfile
from subscriptions.secrets.own_secrets import Unfit
from subscriptions.signing.ready_made import MEANINGS, READY_MADE
from subscriptions.signing.recipe import Recipe, read

# A select holds them all.
MAX_PROFILES = 100


class UnknownScheme(Unfit):
    pointer = "/signature_scheme"


class HeaderTaken(Unfit):
    pointer = "/headers"


class SchemeNameTaken(Exception):
    """There is a scheme of this name."""


class TooManyProfiles(Exception):
    """There are as many as a list can show."""


class InUse(Exception):
    """Endpoints sign by it: receivers would refuse what is signed in another way from one moment to the next."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count:,} endpoint{' signs' if count == 1 else 's sign'} by it.")
        self.count = count


def recipe_of(name: str) -> Recipe:
    if (ready := READY_MADE.get(name)) is not None:
        return ready
    stored = SignatureProfile.objects.filter(name=name).values_list("recipe", flat=True).first()
    if stored is None:
        raise UnknownScheme(
            _("There is no signature scheme %(name)s. There are %(known)s.")
            % {"name": name, "known": ", ".join(meanings())}
        )
    return read(stored)


def stored_recipe(name: str) -> Mapping[str, Any] | None:
    """What signing needs beside the name: None for one that every deployment has."""
    return None if name in READY_MADE else recipe_of(name).as_json()


def profile_of(name: str) -> str | None:
    """The profile that an endpoint with this scheme refers to."""
    return None if name in READY_MADE else name


def check_headers_fit(recipe: Recipe, names: Iterable[str], *, payload_mode: str) -> None:
    ours = {folded(name) for name in recipe.header_names}
    for name in names:
        if folded(name) in ours:
            raise HeaderTaken(_("%(name)s is set by the endpoint's signature scheme.") % {"name": name})
        if payload_mode == PayloadMode.CLOUDEVENTS_BINARY and folded(name).startswith("ce-"):
            raise HeaderTaken(
                _("%(name)s is set by the endpoint's payload mode, `cloudevents_binary`.") % {"name": name}
            )


def meanings() -> dict[str, str]:
    """Every scheme that an endpoint may have, with what it is, in words."""
    made = SignatureProfile.objects.order_by("name").values_list("name", "description")
    return {**MEANINGS, **dict(made)}


@transaction.atomic
def create(*, name: str, description: str = "", **recipe: Any) -> SignatureProfile:
    if name in READY_MADE or SignatureProfile.objects.filter(name=name).exists():
        raise SchemeNameTaken
    if SignatureProfile.objects.count() >= MAX_PROFILES:
        raise TooManyProfiles
    return SignatureProfile.objects.create(name=name, description=description, recipe=read(recipe).as_json())


def update(profile: SignatureProfile, changes: Mapping[str, Any]) -> list[str]:
    """The names of what changed. Within a transaction. How it signs stays while an endpoint that lives uses it."""
    locked = SignatureProfile.objects.select_for_update().get(name=profile.name)
    new = read({**locked.recipe, **changes}).as_json()
    changed = [name for name in new if new[name] != locked.recipe[name]]
    if changed and (count := Endpoint.objects.filter(signature_profile=locked, deleted_at__isnull=True).count()):
        raise InUse(count)
    if changes.get("description", locked.description) != locked.description:
        changed.append("description")
    locked.recipe, locked.description = new, changes.get("description", locked.description)
    locked.save(update_fields=["recipe", "description"])
    profile.recipe, profile.description = locked.recipe, locked.description
    return changed


def delete(profile: SignatureProfile) -> None:
    """Within a transaction. Deleted endpoints keep theirs for as long as their history is kept."""
    locked = SignatureProfile.objects.select_for_update().get(name=profile.name)
    if count := Endpoint.objects.filter(signature_profile=locked).count():
        raise InUse(count)
    locked.delete()


def endpoint_counts(names: Iterable[str]) -> dict[str, int]:
    """How many living endpoints sign by each of these profiles."""
    living = Endpoint.objects.filter(signature_profile__in=list(names), deleted_at__isnull=True)
    return dict(living.values_list("signature_profile_id").annotate(count=Count("id")).order_by())
