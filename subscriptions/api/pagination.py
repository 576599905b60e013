"""Lists are read page by page from a cursor, never by offset: a page costs the same however deep it lies."""

import base64
import binascii
from typing import Any, TypeVar
from uuid import UUID

import orjson
from django.db.models import Model, QuerySet
from rest_framework.request import Request

from subscriptions.api.describe import Parameter
from subscriptions.api.problems import Problem
from subscriptions.reading.keyset import keyset_slice

M = TypeVar("M", bound=Model)

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

# The parameters of every list.
PAGE = (
    Parameter(
        "limit",
        "How many at most. A page may hold fewer and still have a next one.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    ),
    Parameter("cursor", "Where to go on: part of the `next` of the page before.", {"type": "string"}),
)


def page(request: Request, queryset: QuerySet[M], *, key: str = "id") -> tuple[list[M], str | None]:
    """Newest first, by a time-ordered and unique id, and the URL of the next page."""
    found = keyset_slice(queryset, key=key, size=limit_of(request), before=_before(request))
    return found.rows, next_url(request, [getattr(found.rows[-1], key).hex]) if found.more_older else None


def _before(request: Request) -> UUID | None:
    cursor = read_cursor(request)
    try:
        return None if cursor is None else UUID(hex=cursor[0])
    except (ValueError, TypeError, IndexError, AttributeError):
        raise invalid_cursor() from None


def limit_of(request: Request) -> int:
    text = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT or len(text) > 9:
        raise Problem(400, "invalid_parameter", f"`limit` is a number from 1 to {MAX_LIMIT}.")
    return int(text)


def flag_of(request: Request, name: str) -> bool:
    """`true` or `false` and nothing else: what reads `yes` as no does what it was asked not to do."""
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise Problem(400, "invalid_parameter", f"`{name}` is `true` or `false`.")
    return text == "true"


def next_url(request: Request, cursor: list[Any]) -> str:
    encoded = base64.urlsafe_b64encode(orjson.dumps(cursor)).decode().rstrip("=")
    query = request.query_params.copy()
    query["cursor"] = encoded
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


def read_cursor(request: Request) -> list[Any] | None:
    text = request.query_params.get("cursor")
    if not text:
        return None
    try:
        cursor = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError):
        raise invalid_cursor() from None
    if not isinstance(cursor, list):
        raise invalid_cursor()
    return cursor


def invalid_cursor() -> Problem:
    return Problem(400, "invalid_cursor", "The cursor is not one of ours. Start again without it.")
