"""The `webhooks` of the OpenAPI document: what consumers receive, how it is signed, and what their answers mean."""

from collections.abc import Iterable
from typing import Annotated, Any, NotRequired, TypedDict

from deliveries.upkeep.announce import EVENT_TYPES, NoticeData
from subscriptions.api.describe import Refer, Schema, Time, schema_of
from subscriptions.event_types import NOTIFICATION_TYPES
from subscriptions.models import EventType, EventTypeVersion

# One document holds no more of the catalogue than this.
MOST_TYPES = 1000
# The types that the platform sends by itself: what each is about, and what its data is.
_OWN: dict[str, tuple[str, Any]] = {
    "endpoint.warning": ("An endpoint has been failing for long. Sent to the operator's own endpoints.", NoticeData),
    "endpoint.disabled": ("An endpoint was disabled. Sent to the operator's own endpoints.", NoticeData),
    "endpoint.recovered": ("An endpoint works again. Sent to the operator's own endpoints.", NoticeData),
    "delivery.dead": ("A delivery became a dead letter. Sent to the operator's own endpoints.", NoticeData),
    **{
        name: (f"{text} Sent to those of its consumer's other endpoints that ask for it by name.", NoticeData)
        for name, text in zip(
            NOTIFICATION_TYPES.values(),
            (
                "An endpoint has failed for a day.",
                "An endpoint will be disabled in a day.",
                "An endpoint was disabled.",
                "An endpoint works again.",
            ),
            strict=True,
        )
    },
    "webhook.test": ("A test that somebody asked for. Answer it as any other event.", dict[str, Any]),
    "webhook.check_up": ("Part of a check-up. Some of these are forged or old on purpose.", dict[str, Any]),
}
ANY_EVENT = "any.event"

_SIGNED = """\
Each endpoint has a scheme (`signature_scheme`). Our own two are HMAC-SHA256 over the raw bytes of the body: verify
before you parse.

- `timestamped`, the default: `t=<timestamp>,v1=<hex>` over `<timestamp>.<body>`, keyed with the whole secret, `whsec_`
  included. Stripe's libraries verify it.
- `standard`: `v1,<base64>` over `<webhook-id>.<webhook-timestamp>.<body>`, keyed with the base64-decoded part after
  `whsec_`. The libraries of Standard Webhooks verify it.
- Others are for receivers that verify another sender's requests: `signature-profiles/` lists them, with their headers.

While a secret is being rotated there are two signatures, the new one first: any of them will do. Refuse timestamps that
are more than five minutes away."""

PARAMETERS: dict[str, Schema] = {
    "webhook-id": {
        "name": "webhook-id",
        "in": "header",
        "required": True,
        "description": "The event's id, the same on every retry and replay: dedupe on it.",
        "schema": {"type": "string"},
    },
    "webhook-timestamp": {
        "name": "webhook-timestamp",
        "in": "header",
        "required": True,
        "description": "When this attempt was signed, in seconds since 1970.",
        "schema": {"type": "integer"},
    },
    "webhook-signature": {
        "name": "webhook-signature",
        "in": "header",
        "required": True,
        "description": _SIGNED,
        "schema": {"type": "string"},
        "examples": {
            "timestamped": {"value": f"t=1794796522,v1={'5257a869' * 8}"},
            "rotating": {"value": f"t=1794796522,v1={'5257a869' * 8},v1={'8d0e1cc9' * 8}"},
            "standard": {"value": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        },
    },
    "webhook-attempt": {
        "name": "webhook-attempt",
        "in": "header",
        "required": True,
        "description": "1 for the first attempt, then 2, and so on.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "webhook-idempotency-key": {
        "name": "idempotency-key",
        "in": "header",
        "required": True,
        "description": "The event's id once more, where receivers look for it by this name.",
        "schema": {"type": "string"},
    },
}


class WebhookOut(TypedDict):
    """The body of a webhook."""

    id: Annotated[str, "The event's id."]
    type: str
    created_at: Annotated[Time, "When the event was accepted."]
    timestamp: Annotated[Time, "When it happened: `occurred_at`, else `created_at`."]
    api_version: str
    data: NotRequired[
        Annotated[
            dict[str, Any], "Where the endpoint's `payload_mode` is `thin`: only `id` and `…_id`, if there are any."
        ]
    ]
    ordering_key: NotRequired[str]
    sequence: NotRequired[Annotated[int, "Its place among the events of its ordering key, without gaps."]]


def section(refer: Refer) -> dict[str, Schema]:
    """What every deployment sends."""
    general = "Any event of your catalogue: this is the form of all of them."
    shown = {ANY_EVENT: _hook("webhook_any_event", "Any event", general, refer(WebhookOut))}
    assert {*EVENT_TYPES.values()} <= _OWN.keys()
    for name, (text, data) in _OWN.items():
        narrowed = {**refer(WebhookOut), "properties": {"type": {"const": name}, "data": schema_of(data, refer)}}
        shown[name] = _hook(f"webhook_{name.replace('.', '_')}", name, text, narrowed)
    return shown


def catalogue(types: Iterable[EventType]) -> dict[str, Schema]:
    """A deployment's own event types, one entry for each version; one that has no version has one entry, too."""
    shown: dict[str, Schema] = {}
    for each in types:
        text = each.description or f"`{each.name}`."
        versions = sorted(each.versions.all(), key=lambda version: version.api_version)
        if not versions:
            shown[each.name] = _hook(f"webhook_{len(shown)}", each.name, text, _narrowed(each.name))
        for version in versions:
            name = f"{each.name} ({version.api_version})"
            hook = _hook(f"webhook_{len(shown)}", name, text, _narrowed(each.name, version))
            if version.example is not None:
                example = {"type": each.name, "api_version": version.api_version, "data": version.example}
                hook["post"]["requestBody"]["content"]["application/json"]["examples"] = {
                    "catalogue": {"summary": "The catalogue's example, in part", "value": example}
                }
            shown[name] = hook
    return shown


def _narrowed(name: str, version: EventTypeVersion | None = None) -> Schema:
    """The body of every webhook, where it is one of this type."""
    properties: Schema = {"type": {"const": name}}
    if version is not None:
        properties["api_version"] = {"const": version.api_version}
        if version.schema is not None:
            properties["data"] = _own_resource(version.schema, name, version.api_version)
    return {"$ref": "#/components/schemas/Webhook", "properties": properties}


def _own_resource(schema: Any, name: str, api_version: str) -> Any:
    """With an id, so that references inside it (`#/$defs/…`) stay inside it."""
    if not isinstance(schema, dict) or "$id" in schema:
        return schema
    return {"$id": f"urn:webhooks-platform:event-type:{name}:{api_version}", **schema}


def _hook(operation_id: str, summary: str, description: str, body: Schema) -> Schema:
    return {
        "post": {
            "operationId": operation_id,
            "summary": summary,
            "description": description,
            "tags": ["Webhooks"],
            "security": [],
            "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in PARAMETERS],
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {
                "2XX": {"description": "Delivered. Whatever else is answered, or nothing, is a failed attempt."},
                "410": {"description": "Gone: the endpoint is disabled."},
                "429": {
                    "description": "Come again later. `Retry-After` (seconds or a date), here and with 503, holds back"
                    " everything for this endpoint, for a day at most."
                },
            },
        }
    }
