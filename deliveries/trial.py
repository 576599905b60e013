"""A signed test event, sent now and answered for: no row is written, and the endpoint's health does not hear of it."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson
from django.conf import settings

from deliveries import prepare
from deliveries.ingest import show_time
from deliveries.send import Answered, Outgoing, Unanswered, send
from deliveries.transport import GuardedTransport
from subscriptions import ids
from subscriptions.models import Endpoint
from subscriptions.targets import policy

# A test holds a thread of the web server for as long as the receiver takes.
_AT_ONCE = threading.BoundedSemaphore(4)


class Busy(Exception):
    """As many tests as this process runs at once are under way."""


@dataclass(frozen=True, slots=True)
class Trial:
    event_id: str
    request: Outgoing
    # As they may be shown.
    request_headers: Sequence[tuple[str, str]]
    result: Answered | Unanswered

    @property
    def succeeded(self) -> bool:
        return isinstance(self.result, Answered) and 200 <= self.result.status_code < 300


def run(endpoint: Endpoint) -> Trial:
    if not _AT_ONCE.acquire(blocking=False):
        raise Busy
    try:
        return asyncio.run(_run(endpoint))
    finally:
        _AT_ONCE.release()


async def _run(endpoint: Endpoint) -> Trial:
    event_id = ids.show("evt", ids.new_uuid())
    signer = prepare.signer(
        endpoint_id=endpoint.id,
        scheme=endpoint.signature_scheme,
        secret_encrypted=bytes(endpoint.secret_encrypted),
        previous_secret_encrypted=_previous(endpoint),
        headers_encrypted=bytes(endpoint.headers_encrypted) if endpoint.headers_encrypted else None,
    )
    body = orjson.dumps(
        {
            "id": event_id,
            "type": "webhook.test",
            "created_at": show_time(datetime.now(UTC)),
            "api_version": settings.DEFAULT_API_VERSION,
            "data": {"message": "This is a test. Your endpoint verified it if it answers 2xx."},
        }
    )
    request = Outgoing(
        url=endpoint.url,
        headers=signer.headers(
            event_id=event_id,
            attempt=1,
            body=body,
            user_agent=settings.DELIVERY_USER_AGENT,
            timestamp=int(time.time()),
            traceparent=None,
        ),
        body=body,
        timeout_seconds=min(endpoint.timeout_seconds, 10),
    )
    async with GuardedTransport(policy=policy(), proxy_url=settings.DELIVERY_PROXY_URL or None) as transport:
        result = await send(request, transport=transport)
    return Trial(event_id=event_id, request=request, request_headers=signer.redacted(request), result=result)


def _previous(endpoint: Endpoint) -> bytes | None:
    sealed, expires_at = endpoint.previous_secret_encrypted, endpoint.previous_secret_expires_at
    return bytes(sealed) if sealed and expires_at and expires_at > datetime.now(UTC) else None
