"""Step: sign. The headers of one attempt, from the exact bytes that go on the wire. Pure.

Two schemes sign nearly everything and are written out here. `timestamped` is `t=<ts>,v1=<hex>[,v1=<hex>]` over
`<ts>.<body>`, keyed with the whole secret string. `standard` is Standard Webhooks: `v1,<base64>[ v1,<base64>]` over
`<id>.<ts>.<body>`, keyed with the decoded secret. All others are recipes (signing/closures.py).
"""

import base64
import hmac
from collections.abc import Callable, Sequence

from deliveries.signing.closures import Message, closure
from subscriptions.signing.ready_made import STANDARD, TIMESTAMPED


def signature(*, scheme: str, secrets: Sequence[str], event_id: str, timestamp: int, body: bytes) -> str:
    """The `webhook-signature` header of these two: one signature per secret, in the order given (new first)."""
    return _SCHEMES[scheme](secrets, event_id, timestamp, body)


def headers(
    *,
    scheme: str,
    secrets: Sequence[str],
    event_id: str,
    timestamp: int,
    attempt: int,
    body: bytes,
    user_agent: str,
    traceparent: str | None,
    custom: Sequence[tuple[str, str]],
    recipe: str | None = None,
    event_type: str = "",
    url: str = "",
    content_type: str = "application/json",
) -> list[tuple[str, str]]:
    """Everything one attempt carries. Custom names were checked when they were set: none of them is one of ours.

    `recipe` is that of a profile which operators made; ready-made schemes have theirs in the code.
    """
    if scheme not in _SCHEMES:
        message = Message(event_id, event_type, timestamp, attempt, url, body)
        others = [("content-type", content_type), ("user-agent", user_agent), ("idempotency-key", event_id)]
        traced = [("traceparent", traceparent)] if traceparent else []
        return [*others, *closure(scheme, recipe)(secrets, message), *traced, *custom]
    ours = [
        ("content-type", content_type),
        ("user-agent", user_agent),
        ("webhook-id", event_id),
        ("webhook-timestamp", str(timestamp)),
        (
            "webhook-signature",
            signature(scheme=scheme, secrets=secrets, event_id=event_id, timestamp=timestamp, body=body),
        ),
        ("webhook-attempt", str(attempt)),
        ("idempotency-key", event_id),
    ]
    if traceparent:
        ours.append(("traceparent", traceparent))
    return [*ours, *custom]


def _timestamped(secrets: Sequence[str], _event_id: str, timestamp: int, body: bytes) -> str:
    message = b"%d.%b" % (timestamp, body)
    return f"t={timestamp}," + ",".join("v1=" + _hmac(secret.encode(), message).hex() for secret in secrets)


def _standard(secrets: Sequence[str], event_id: str, timestamp: int, body: bytes) -> str:
    message = f"{event_id}.{timestamp}.".encode() + body
    return " ".join("v1," + base64.b64encode(_hmac(_decoded(secret), message)).decode() for secret in secrets)


_SCHEMES: dict[str, Callable[[Sequence[str], str, int, bytes], str]] = {
    TIMESTAMPED: _timestamped,
    STANDARD: _standard,
}


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _decoded(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))
