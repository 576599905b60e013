"""Between claim and send: one delivery's request, its secrets opened for as long as the signing takes."""

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

import orjson

from deliveries import sign
from deliveries.claim import Claimed
from deliveries.send import Outgoing
from subscriptions import ids
from subscriptions.vault import vault


@dataclass(frozen=True, slots=True)
class Signer:
    """What signing for an endpoint takes; the secrets stay sealed in here."""

    endpoint_id: UUID
    scheme: str
    secret_encrypted: bytes
    previous_secret_encrypted: bytes | None
    headers_encrypted: bytes | None

    def headers(
        self, *, event_id: str, attempt: int, body: bytes, user_agent: str, timestamp: int, traceparent: str | None
    ) -> list[tuple[str, str]]:
        return sign.headers(
            scheme=self.scheme,
            secrets=self._secrets(),
            event_id=event_id,
            timestamp=timestamp,
            attempt=attempt,
            body=body,
            user_agent=user_agent,
            traceparent=traceparent,
            custom=self._custom_headers(),
        )

    def redacted(self, request: Outgoing) -> list[tuple[str, str]]:
        """The request's headers as they may be stored: the values of custom ones are secrets."""
        custom = {name for name, _ in self._custom_headers()}
        return [(name, "[redacted]" if name in custom else value) for name, value in request.headers]

    def _secrets(self) -> list[str]:
        sealed = (self.secret_encrypted, self.previous_secret_encrypted)
        return [_opened(value, str(self.endpoint_id)) for value in sealed if value is not None]

    def _custom_headers(self) -> list[tuple[str, str]]:
        if self.headers_encrypted is None:
            return []
        return list(orjson.loads(_opened(self.headers_encrypted, str(self.endpoint_id))).items())


def signer(delivery: Claimed) -> Signer:
    return Signer(
        endpoint_id=delivery.endpoint_id,
        scheme=delivery.signature_scheme,
        secret_encrypted=delivery.secret_encrypted,
        previous_secret_encrypted=delivery.previous_secret_encrypted,
        headers_encrypted=delivery.headers_encrypted,
    )


def outgoing(delivery: Claimed, *, user_agent: str, timestamp: int) -> Outgoing:
    body = thin(delivery.body) if delivery.payload_mode == "thin" else delivery.body
    headers = signer(delivery).headers(
        event_id=delivery.producer_id or ids.show("evt", delivery.event_id),
        attempt=delivery.number,
        body=body,
        user_agent=user_agent,
        timestamp=timestamp,
        traceparent=delivery.traceparent,
    )
    return Outgoing(url=delivery.url, headers=headers, body=body, timeout_seconds=delivery.timeout_seconds)


def thin(body: bytes) -> bytes:
    """The stored body without its data: a pure function of stored bytes, so it is the same for every attempt."""
    whole = orjson.loads(body)
    del whole["data"]
    return orjson.dumps(whole)


@lru_cache(maxsize=4096)
def _opened(sealed: bytes, belongs_to: str) -> str:
    """Keyed by the ciphertext: a rotated secret is a new entry, and a worker opens each one once."""
    return vault().open(sealed, belongs_to=belongs_to)
