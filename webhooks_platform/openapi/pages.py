"""/api/schema/ and /api/docs/: the OpenAPI document and a reader for it, and / that leads there. All of it is for
everybody, without a key."""

import hashlib
from functools import lru_cache

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.views.decorators.http import require_safe

from subscriptions import event_types, keys
from subscriptions.access.caller import Caller
from subscriptions.access.scopes import EVENT_TYPES_READ
from subscriptions.api.known_names import refuse_unknown_parameters
from subscriptions.api.problems import Problem, as_response
from subscriptions.limits import rate_limit
from webhooks_platform.openapi import reader, webhooks, yaml
from webhooks_platform.openapi.document import document

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_TYPES = {"json": "application/json", "yaml": "application/yaml"}


@require_safe
def schema(request: HttpRequest) -> HttpResponseBase:
    """JSON, or YAML for ?format=yaml or where the Accept header asks for it. With a key that may read the catalogue,
    the deployment's own event types are among its webhooks."""
    try:
        refuse_unknown_parameters(request.GET, known=("format",))
        form, caller = _form(request), _caller(request)
    except Problem as problem:
        return as_response(problem)
    if caller is None or EVENT_TYPES_READ not in caller.scopes:
        return _answer(request, _public(form), _TYPES[form])
    answer = HttpResponse(_written(_with_catalogue(), form), content_type=_TYPES[form])
    answer["Cache-Control"] = "private, no-store"
    return answer


@require_safe
def docs(request: HttpRequest) -> HttpResponseBase:
    answer = _answer(request, _page(), "text/html; charset=utf-8")
    answer["Content-Security-Policy"] = POLICY
    answer["Referrer-Policy"] = "no-referrer"
    return answer


@require_safe
def entrance(request: HttpRequest) -> HttpResponseBase:
    """`/` and `/api/`, for who has only the address: a browser is led to the page to read, a program is told where all
    the rest is."""
    if "text/html" in request.headers.get("Accept", ""):
        answer: HttpResponseBase = HttpResponseRedirect(reverse("api-docs"))
    else:
        known = {"documentation": "api-docs", "schema": "api-schema", "index": "index"}
        shown = {name: request.build_absolute_uri(_path_of(route)) for name, route in known.items()}
        answer = HttpResponse(orjson.dumps(shown), content_type="application/json")
    patch_vary_headers(answer, ["Accept"])
    return answer


def _path_of(route: str) -> str:
    """With the slash, as everywhere in the documents."""
    return reverse(route).rstrip("/") + "/"


def _answer(request: HttpRequest, body: bytes, content_type: str) -> HttpResponseBase:
    """Asked for again, it is sent again only if it has changed."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    whole = HttpResponse(body, content_type=content_type)
    answer: HttpResponseBase = get_conditional_response(request, etag=etag, response=whole) or whole
    answer["ETag"] = etag
    answer["Cache-Control"] = "no-cache"
    patch_vary_headers(answer, ["Accept", "Authorization"])
    return answer


def _form(request: HttpRequest) -> str:
    accepted = "yaml" if "yaml" in request.headers.get("Accept", "") else "json"
    form = request.GET.get("format", accepted)
    if form not in _TYPES:
        raise Problem(400, "invalid_parameter", f"`format` is one of {', '.join(_TYPES)}.")
    return form


def _caller(request: HttpRequest) -> Caller | None:
    """None without a key: the document is public. A key that is not valid is refused, as everywhere."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if not scheme:
        return None
    found = keys.verify(secret.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        raise Problem(
            401,
            "not_authenticated",
            "The API key is unknown, expired or revoked. This document can be read without one.",
            headers={"WWW-Authenticate": 'Bearer realm="webhooks"'},
        )
    allowance = rate_limit.take(found.owner)
    if allowance is not None and allowance.retry_after_seconds is not None:
        raise Problem(429, "rate_limited", "Wait, then ask again.", headers=allowance.headers)
    return found


@lru_cache(maxsize=2)
def _public(form: str) -> bytes:
    return _written(document(), form)


def _with_catalogue() -> dict[str, object]:
    types = event_types.published().prefetch_related("versions").order_by("name")
    own = webhooks.catalogue(types[: webhooks.MOST_TYPES])
    return {**document(), "webhooks": own | document()["webhooks"]}


def _written(shown: dict[str, object], form: str) -> bytes:
    return orjson.dumps(shown, option=orjson.OPT_INDENT_2) if form == "json" else yaml.dump(shown).encode()


@lru_cache(maxsize=1)
def _page() -> bytes:
    return render_to_string("api/docs.html", {"page": reader.read(document())}).encode()
