"""The catalogue of event types as consumers see it: what is published, and nothing else."""

from dataclasses import dataclass
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from deliveries.portal import schema_table
from deliveries.portal.page import missing, render
from subscriptions import event_types
from subscriptions.models import Consumer, EventType, EventTypeVersion

# More than anybody reads on one page.
MOST_TYPES = 500


@dataclass(frozen=True, slots=True)
class Family:
    """Event types that share the word before their first dot."""

    name: str
    types: list[EventType]

    @property
    def pattern(self) -> str:
        return f"{self.name}.*"


@dataclass(frozen=True, slots=True)
class Version:
    name: str
    rows: list[schema_table.SchemaRow]
    # As JSON; empty where there is none.
    example: str
    schema: str


def index(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    found = families()
    count = sum(len(family.types) for family in found)
    return render(
        request,
        consumer,
        "catalogue.html",
        title=_("Event types"),
        section="Events",
        families=found,
        count=count,
        is_cut=count >= MOST_TYPES,
    )


def show(request: HttpRequest, consumer: Consumer, type: str) -> HttpResponse:
    found = event_types.published().prefetch_related("versions").filter(name=type).first()
    if found is None:
        return missing(request, consumer, "event type")
    # Versions are dates or numbers: the newest one first.
    versions = [_version(each) for each in sorted(found.versions.all(), key=lambda each: each.api_version)][::-1]
    return render(
        request, consumer, "event_type.html", title=found.name, section="Events", type=found, versions=versions
    )


def families() -> list[Family]:
    found: dict[str, Family] = {}
    for each in event_types.published().order_by("name")[:MOST_TYPES]:
        name = each.name.partition(".")[0]
        found.setdefault(name, Family(name, [])).types.append(each)
    return list(found.values())


def _version(version: EventTypeVersion) -> Version:
    return Version(
        name=version.api_version,
        rows=schema_table.rows(version.schema),
        example="" if version.example is None else pretty(version.example),
        schema="" if version.schema is None else pretty(version.schema),
    )


def pretty(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
