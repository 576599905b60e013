"""Between claim and send: one delivery's request, its secrets opened for as long as the signing takes."""

from functools import lru_cache

import orjson

from deliveries import sign
from deliveries.claim import Claimed
from deliveries.send import Outgoing
from subscriptions import ids
from subscriptions.vault import vault


def outgoing(delivery: Claimed, *, user_agent: str, timestamp: int) -> Outgoing:
    body = thin(delivery) if delivery.payload_mode == "thin" else delivery.body
    headers = sign.headers(
        scheme=delivery.signature_scheme,
        secrets=_secrets(delivery),
        event_id=public_event_id(delivery),
        timestamp=timestamp,
        attempt=delivery.number,
        body=body,
        user_agent=user_agent,
        traceparent=delivery.traceparent,
        custom=_custom_headers(delivery),
    )
    return Outgoing(url=delivery.url, headers=headers, body=body, timeout_seconds=delivery.timeout_seconds)


def redacted(delivery: Claimed, request: Outgoing) -> list[tuple[str, str]]:
    """The request's headers as they may be stored: the values of custom ones are secrets."""
    custom = {name for name, _ in _custom_headers(delivery)}
    return [(name, "[redacted]" if name in custom else value) for name, value in request.headers]


def public_event_id(delivery: Claimed) -> str:
    return delivery.producer_id or ids.show("evt", delivery.event_id)


def thin(delivery: Claimed) -> bytes:
    """The stored body without its data: a pure function of stored bytes, so it is the same for every attempt."""
    body = orjson.loads(delivery.body)
    del body["data"]
    return orjson.dumps(body)


def _secrets(delivery: Claimed) -> list[str]:
    sealed = (delivery.secret_encrypted, delivery.previous_secret_encrypted)
    return [_opened(value, str(delivery.endpoint_id)) for value in sealed if value is not None]


def _custom_headers(delivery: Claimed) -> list[tuple[str, str]]:
    if delivery.headers_encrypted is None:
        return []
    return list(orjson.loads(_opened(delivery.headers_encrypted, str(delivery.endpoint_id))).items())


@lru_cache(maxsize=4096)
def _opened(sealed: bytes, belongs_to: str) -> str:
    """Keyed by the ciphertext: a rotated secret is a new entry, and the worker opens each one once."""
    return vault().open(sealed, belongs_to=belongs_to)
