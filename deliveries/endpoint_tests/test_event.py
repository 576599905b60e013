"""A signed test event, sent now and answered for: no delivery is written, and the endpoint's health hears nothing.

Asked for by hand, so it also goes to an endpoint that is paused or disabled: that is how one sees whether it works
again. A kill switch stops it like everything else: while it is on, nothing goes out.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q

from deliveries import ingest
from deliveries.endpoint_tests import trial_slots
from deliveries.endpoint_tests.trial_slots import TooManyTests as TooManyTests
from deliveries.health.models import Hold
from deliveries.ingest import NewEvent
from deliveries.pump import forms, prepare
from deliveries.pump.prepare import Signer
from deliveries.pump.transport import GuardedTransport
from deliveries.retry import is_success
from deliveries.send import Answered, Outgoing, Unanswered, send
from deliveries.sql import clock
from subscriptions import event_types, ids
from subscriptions.guards.targets import policy
from subscriptions.models import Endpoint, PayloadMode
from subscriptions.secrets.vault import VaultError
from subscriptions.signing import schemes

logger = logging.getLogger(__name__)

# What is sent when nobody says what.
TYPE = "webhook.test"
DATA = {"message": "This is a test. Your endpoint verified it if it answers 2xx."}
# So that a receiver can tell a test of a real type from the real thing.
MARK = ("webhook-test", "true")
# However patient its endpoint is with deliveries (seconds).
_LONGEST = 10


class Locked(TooManyTests):
    """The endpoint's secrets cannot be opened: a key is missing from ENCRYPTION_KEYS. The log says which."""

    code = "secrets_locked"


class Held(Exception):
    """A kill switch is on for this endpoint: nothing goes out."""


@dataclass(frozen=True, slots=True)
class Trial:
    event_id: str
    type: str
    request: Outgoing
    # As they may be shown.
    request_headers: Sequence[tuple[str, str]]
    result: Answered | Unanswered

    @property
    def succeeded(self) -> bool:
        return isinstance(self.result, Answered) and is_success(self.result.status_code)


def run(
    endpoint: Endpoint,
    *,
    type: str = TYPE,
    data: dict[str, Any] | None = None,
    before_sending: Callable[[], None] = lambda: None,
) -> Trial:
    """Sends an event of any type, as its real ones look; a header says that it is a test."""
    with slot(endpoint):
        signing = signer(endpoint)
        before_sending()
        trial_slots.pay(endpoint)
        return asyncio.run(_run(endpoint, signing, type, DATA if data is None else data, now=clock.now()))


def data_of(type: str, given: dict[str, Any] | None) -> dict[str, Any] | None:
    """A test's data: what was given, else the type's example. None for a type that is not published."""
    if type == TYPE:
        return DATA if given is None else given
    found = event_types.published().prefetch_related("versions").filter(name=type).first()
    if found is None:
        return None
    return event_types.newest_example(found) if given is None else given


async def _run(endpoint: Endpoint, signing: Signer, type: str, data: dict[str, Any], *, now: datetime) -> Trial:
    event_id = ids.show("evt", ids.new_uuid())
    body = render(event_id, type=type, data=data, at=now)
    request = outgoing(endpoint, signing, event_id=event_id, type=type, body=body, timestamp=int(now.timestamp()))
    request = request._replace(headers=[*request.headers, MARK])
    async with transport() as carrier:
        result = signing.without_secrets(await send(request, transport=carrier))
    return Trial(
        event_id=event_id, type=type, request=request, request_headers=signing.redacted(request), result=result
    )


# ── what a check-up shares with it ───────────────────────────────────────────────────────────────────────────────────


def render(event_id: str, *, type: str, data: dict[str, Any], at: datetime) -> bytes:
    """As every event looks on the wire."""
    new = NewEvent(consumer="", type=type, data=data)
    version = ingest.default_api_version()
    return ingest.render(public_id=event_id, new=new, api_version=version, sequence=None, created_at=at)


@contextmanager
def slot(endpoint: Endpoint) -> Iterator[None]:
    """One of the few places for what is sent by hand; `Held` or `TooManyTests` when nothing may be sent now."""
    if Hold.objects.filter(Q(consumer__isnull=True) | Q(consumer_id=endpoint.consumer_id)).exists():
        raise Held
    with trial_slots.slot(endpoint):
        yield


def signer(endpoint: Endpoint) -> Signer:
    try:
        return prepare.signer(
            endpoint_id=endpoint.id,
            scheme=endpoint.signature_scheme,
            recipe=_recipe(endpoint),
            secret_encrypted=bytes(endpoint.secret_encrypted),
            previous_secret_encrypted=_previous(endpoint),
            headers_encrypted=bytes(endpoint.headers_encrypted) if endpoint.headers_encrypted else None,
        )
    except VaultError as error:
        logger.error("endpoint.locked", extra={"fields": {"endpoint": endpoint.public_id, "error": str(error)}})
        raise Locked(
            "The endpoint's secrets cannot be opened at present. An operator has to look at it.", retry_after_seconds=60
        ) from None


def outgoing(
    endpoint: Endpoint, signing: Signer, *, event_id: str, type: str, body: bytes, timestamp: int, attempt: int = 1
) -> Outgoing:
    """In the endpoint's own form, but never without its data: a test of thin ones shows what was given."""
    form = None
    if endpoint.payload_mode in (PayloadMode.CLOUDEVENTS, PayloadMode.CLOUDEVENTS_BINARY):
        form = forms.of(endpoint.payload_mode, body, source=prepare.source_of(endpoint.consumer_id))
        body = form.body
    headers = signing.headers(
        event_id=event_id,
        event_type=type,
        url=endpoint.url,
        attempt=attempt,
        body=body,
        user_agent=settings.DELIVERY_USER_AGENT,
        timestamp=timestamp,
        traceparent=None,
        form=form,
    )
    return Outgoing(
        url=endpoint.url, headers=headers, body=body, timeout_seconds=min(endpoint.timeout_seconds, _LONGEST)
    )


def transport() -> GuardedTransport:
    """The same way out as every delivery's, with the same guard at the dial."""
    return GuardedTransport(policy=policy(), proxy_url=settings.DELIVERY_PROXY_URL or None)


def _recipe(endpoint: Endpoint) -> str | None:
    stored = schemes.stored_recipe(endpoint.signature_scheme)
    return json.dumps(stored) if stored else None


def _previous(endpoint: Endpoint) -> bytes | None:
    sealed, expires_at = endpoint.previous_secret_encrypted, endpoint.previous_secret_expires_at
    return bytes(sealed) if sealed and expires_at and expires_at > clock.now() else None
