"""Between claim and send: one delivery's request, its secrets opened for as long as the signing takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

import orjson
from django.conf import settings

from deliveries import sign
from deliveries.claim import Claimed
from deliveries.pump import forms, redact
from deliveries.pump.forms import Form
from deliveries.send import Answered, Outgoing, Unanswered
from subscriptions import ids
from subscriptions.secrets.endpoint_secrets import Column, unseal
from subscriptions.secrets.vault import vault


@dataclass(frozen=True, slots=True, repr=False)
class Signer:
    """What signing for an endpoint takes, opened. Kept in memory by a worker, never shown."""

    scheme: str
    # Of a profile that operators made.
    recipe: str | None
    secrets: tuple[str, ...]
    custom_headers: tuple[tuple[str, str], ...]
    # A secret that the consumer brought need not begin with `whsec_`, so no answer tells by its look that it holds one.
    has_unmarked_secret: bool

    def headers(
        self, *, event_id: str, event_type: str, attempt: int, url: str, body: bytes, user_agent: str, timestamp: int,
        traceparent: str | None, form: Form | None = None,
    ) -> list[tuple[str, str]]:  # fmt: skip
        return sign.headers(
            scheme=self.scheme,
            recipe=self.recipe,
            secrets=self.secrets,
            event_id=event_id,
            event_type=event_type,
            url=url,
            timestamp=timestamp,
            attempt=attempt,
            body=body,
            user_agent=user_agent,
            traceparent=traceparent,
            custom=(*form.headers, *self.custom_headers) if form else self.custom_headers,
            content_type=form.content_type if form else "application/json",
        )

    def redacted(self, request: Outgoing) -> Sequence[tuple[str, str]]:
        """The request's headers as they may be stored: the values of custom ones are secrets."""
        if not self.custom_headers:
            return request.headers
        custom = {name for name, _ in self.custom_headers}
        return [(name, "[redacted]" if name in custom else value) for name, value in request.headers]

    def without_secrets(self, sent: Answered | Unanswered) -> Answered | Unanswered:
        """What came back as it may be stored and shown: a receiver may echo what it was sent (S08)."""
        return redact.redacted(sent, (*self.secrets, *[value for _, value in self.custom_headers]))


@lru_cache(maxsize=32_768)
def signer(
    *,
    endpoint_id: UUID,
    scheme: str,
    recipe: str | None,
    secret_encrypted: bytes,
    previous_secret_encrypted: bytes | None,
    headers_encrypted: bytes | None,
) -> Signer:
    """Keyed by what is sealed: a rotated secret is a new entry, and a worker opens each one once."""

    def opened(sealed: bytes, column: Column) -> str:
        return unseal(vault(), sealed, endpoint_id=endpoint_id, column=column)

    secrets = [opened(secret_encrypted, "secret_encrypted")]
    if previous_secret_encrypted is not None:
        secrets.append(opened(previous_secret_encrypted, "previous_secret_encrypted"))
    custom = orjson.loads(opened(headers_encrypted, "headers_encrypted")) if headers_encrypted else {}
    return Signer(
        scheme=scheme,
        recipe=recipe,
        secrets=tuple(secrets),
        custom_headers=tuple(custom.items()),
        has_unmarked_secret=not all(secret.startswith("whsec_") for secret in secrets),
    )


def signer_of(delivery: Claimed) -> Signer:
    return signer(
        endpoint_id=delivery.endpoint_id,
        scheme=delivery.signature_scheme,
        recipe=delivery.signature_recipe,
        secret_encrypted=delivery.secret_encrypted,
        previous_secret_encrypted=delivery.previous_secret_encrypted,
        headers_encrypted=delivery.headers_encrypted,
    )


def outgoing(delivery: Claimed, *, user_agent: str, timestamp: int) -> Outgoing:
    # Most are sent as they were stored, and pay nothing for the others.
    form = (
        forms.of(delivery.payload_mode, delivery.body, source=source_of(delivery.consumer_id))
        if (delivery.payload_mode != "full")
        else None
    )
    body = form.body if form else delivery.body
    headers = signer_of(delivery).headers(
        event_id=delivery.producer_id or ids.show("evt", delivery.event_id),
        event_type=delivery.event_type,
        url=delivery.url,
        attempt=delivery.number,
        body=body,
        user_agent=user_agent,
        timestamp=timestamp,
        traceparent=delivery.traceparent,
        form=form,
    )
    return Outgoing(url=delivery.url, headers=headers, body=body, timeout_seconds=delivery.timeout_seconds)


def redacted(delivery: Claimed, request: Outgoing) -> Sequence[tuple[str, str]]:
    """The request's headers as they may be stored. Most have none of their own, and need no second look-up."""
    return signer_of(delivery).redacted(request) if delivery.headers_encrypted else request.headers


def without_secrets(delivery: Claimed, sent: Answered | Unanswered) -> Answered | Unanswered:
    """Most endpoints send no header of their own, and their receivers know no secret but the one they verify with,
    which looks like a secret unless it was brought from elsewhere."""
    if delivery.headers_encrypted or redact.looks_secret(sent) or signer_of(delivery).has_unmarked_secret:
        return signer_of(delivery).without_secrets(sent)
    return sent


def source_of(consumer_id: UUID) -> str:
    """The `source` of a consumer's CloudEvents: ids of producers are unique within a consumer."""
    return f"{settings.CLOUDEVENTS_SOURCE}/consumers/{ids.show_often('con', consumer_id)}"
