"""The words of the OpenAPI document that no view says: about all of it, its groups, its headers and its path names."""

from typing import Any, get_args, get_origin

from subscriptions.api.describe import Page, Schema
from subscriptions.api.views import ApiView

_DESCRIPTION = """\
Emit events; they are stored, signed and delivered to the endpoints of your consumers, retried where they fail, and kept
as dead letters where nothing helps. **An event answered with 202 is never lost.**

### Keys
Every request carries `Authorization: Bearer <key>`. A key has a role (`producer`, `consumer` or `operator`) and scopes;
each operation says which it needs. A consumer's key reaches what is its own: anything else is 404. `GET /api/v1/` lists
what your key may use. Keys come from `manage.py issue_key` and from `POST /api/v1/consumers/{consumer}/keys/`.

### Requests
JSON in UTF-8, with a `Content-Length`. A field or a query parameter that a route does not know is refused, with the
nearest known name: a misspelt filter must not mean "everything". Paths work with and without the trailing slash. Times
carry their zone. `OPTIONS` on any path answers with the methods it has. Every answer has an `X-Request-Id`: yours, if
you sent one, otherwise a new one. Quote it when you ask about a request.

### Once
A POST with an `Idempotency-Key` is done once: sent again with the same key and body, it is answered as the first time,
with `Idempotent-Replayed: true`. Keys are kept for 72 hours, per owner of an API key and per path.

### Lists
`{"results": [...], "next": "..."}`: follow `next` until it is null.

### Refusals
A problem document (`application/problem+json`) with a stable `code`, and nothing was done. `429` and `503`, and `409`
where it passes by itself, say in `Retry-After` how many seconds to wait.

### Limits
Each owner of keys has a burst of requests that fills up again; `RateLimit-Remaining` says what is left of it. A body is
at most 256 KiB, that of a batch more.

### Webhooks
What consumers receive is described under Webhooks: one entry per event type, with how it is signed. Asked for with a
key that has the scope `event_types:read`, this document holds your own catalogue there, too.
"""

INFO: Schema = {
    "title": "Webhooks platform",
    "version": "1",
    "summary": "Send webhooks without losing one.",
    "description": _DESCRIPTION,
}

# By the module of a view, and in the order in which a newcomer needs them.
_TAG_OF_MODULE = {
    "index": "Index",
    "consumers": "Consumers",
    "keys": "Keys",
    "event_types": "Event types",
    "signature_profiles": "Signature profiles",
    "endpoints": "Endpoints",
    "events": "Events",
    "feed": "Events",
    "deliveries": "Deliveries",
    "statistics": "Statistics",
    "replays": "Replays",
    "audit": "Audit log",
}
TAGS = {
    "Index": "What there is.",
    "Consumers": "The tenants: they own endpoints and keys, and events are addressed to them.",
    "Keys": "A consumer's API keys, made, rotated and revoked with another key.",
    "Event types": "The catalogue: names, descriptions, and a JSON Schema per version.",
    "Signature profiles": "How requests are signed: ready-made ways, and those that your operators describe.",
    "Endpoints": "The URLs that want events: their settings, their secrets, and tests of their receivers.",
    "Events": "What happened: emit it, read it, catch up on it.",
    "Deliveries": "One event owed to one endpoint, with every attempt. Dead letters are those in the state `dead`.",
    "Statistics": "How deliveries went, in figures.",
    "Replays": "Deliveries again, one or many.",
    "Audit log": "Who changed what, to how many, and why.",
    "Webhooks": "What consumers receive.",
}

KEY: Schema = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key. Its role and its scopes say what it may do; what an operation needs stands beside it.",
}

PATH_PARAMETERS: dict[str, Schema] = {
    "consumer": {"description": "A consumer's uid or id.", "schema": {"type": "string"}, "example": "acme"},
    "endpoint": {
        "description": "An endpoint's id.",
        "schema": {"type": "string"},
        "example": "ep_01m7h3xmx1es6vbckezbxg7h8a",
    },
    "event": {
        "description": "An event's id: ours, or yours.",
        "schema": {"type": "string"},
        "example": "evt_01m7h3xmx1es6vbckezbxg7h8a",
    },
    "delivery": {
        "description": "A delivery's id.",
        "schema": {"type": "string"},
        "example": "dlv_01m7h3xmx1es6vbckezbxg7h8a",
    },
    "key": {"description": "A key's id.", "schema": {"type": "string"}, "example": "key_01m7h3xmx1es6vbckezbxg7h8a"},
    "replay": {
        "description": "A replay job's id.",
        "schema": {"type": "string"},
        "example": "rpl_01m7h3xmx1es6vbckezbxg7h8a",
    },
    "profile": {
        "description": "A signature profile's name, as `signature_scheme` names it.",
        "schema": {"type": "string"},
        "example": "github",
    },
    "name": {"description": "An event type's name.", "schema": {"type": "string"}, "example": "invoice.paid"},
}

PARAMETERS: dict[str, Schema] = {
    "RequestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Your name for this request, to find it again: the answer and our log lines carry it. One that"
        " is not well-formed is replaced.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:@=+/-]{1,128}$"},
        "example": "checkout-4711-try-2",
    },
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Quoted or bare. The same key with the same body does its work once, and is answered alike.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": "invoice-4711-paid",
    },
    "Traceparent": {
        "name": "traceparent",
        "in": "header",
        "description": "W3C trace context. It goes on to the receivers. One that is not well-formed is left out.",
        "schema": {"type": "string"},
    },
}

_NUMBER = {"type": "integer", "minimum": 0}
HEADERS: dict[str, Schema] = {
    "X-Request-Id": {
        "description": "The request's id: yours, or one that was made. Quote it when you ask about a request.",
        "schema": {"type": "string"},
    },
    "RateLimit-Limit": {"description": "How many requests the owner of this key may send at once.", "schema": _NUMBER},
    "RateLimit-Remaining": {"description": "How many of them are left.", "schema": _NUMBER},
    "RateLimit-Reset": {"description": "Seconds until all of them are there again.", "schema": _NUMBER},
    "Retry-After": {"description": "Seconds to wait before the request is worth sending again.", "schema": _NUMBER},
    "Idempotent-Replayed": {
        "description": "`true`: this is the answer of the first request with this Idempotency-Key.",
        "schema": {"type": "string", "const": "true"},
    },
    "WWW-Authenticate": {"description": "Which kind of key is asked for.", "schema": {"type": "string"}},
}


def tag_of(view: type[ApiView]) -> str:
    return _TAG_OF_MODULE[view.__module__.rpartition(".")[2]]


def who_may(roles: list[str], scope: str | None) -> str:
    """As a sentence, for readers that know nothing of `x-roles`."""
    who = "any key" if len(roles) == 3 else f"keys of {' and '.join(f'{role}s' for role in roles)}"
    return f"For {who}{f' with the scope `{scope}`' if scope else ''}."


def answer(declared: Any) -> str:
    base = get_origin(declared) or declared
    if base is Page:
        return "One page of the list."
    said: str = (base.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(said.split()) if not get_args(declared) else said
