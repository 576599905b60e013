"""A check-up: is this endpoint's receiver sound? It gets a genuine request, a forged, an old and a doubled one.

Sent by hand and outside the queue, as a test is (see test_event.py): no delivery is written, and the endpoint's health
does not hear of it. The last report is kept beside the endpoint.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, get_args

import httpx
from django.db import connection, transaction

from deliveries.endpoint_tests import test_event, trial_slots
from deliveries.endpoint_tests.diagnose import Probe, Reply, accepted, diagnose, overall
from deliveries.endpoint_tests.models import CheckUp
from deliveries.ingest import show_time
from deliveries.pump.prepare import Signer
from deliveries.send import Answered, Outgoing, Unanswered, send
from deliveries.sql import clock
from subscriptions import ids
from subscriptions.models import Endpoint
from subscriptions.signing import schemes

TYPE = "webhook.check_up"
# The least time between two check-ups of one endpoint, and the most that one may take (seconds).
PAUSE_SECONDS = 10
_BUDGET_SECONDS = 20
# How old the old request says it is: well beyond the five minutes that receivers usually allow (seconds).
_STALE_SECONDS = 3600
# An answer within the first is fast, beyond the second it is slow.
_FAST_MS, _SLOW_MS = 1000, 5000

START = """
    INSERT INTO subscriptions_checkup (endpoint_id, started_at) VALUES (%(endpoint_id)s, now())
    ON CONFLICT (endpoint_id) DO UPDATE SET started_at = now()
    WHERE subscriptions_checkup.started_at <= now() - %(pause)s * interval '1 second'
"""
"""Of two who ask at the same moment, one starts. The report before stays until the new one is there."""


class TooSoon(Exception):
    """This endpoint's last check-up began moments ago."""


def run(
    endpoint: Endpoint,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    before_sending: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The report, which is also stored. `Held`, `TooManyTests` or `TooSoon` when nothing was sent."""
    with test_event.slot(endpoint):
        signing = test_event.signer(endpoint)
        with transaction.atomic():
            _start(endpoint)
            before_sending()
        spacing = trial_slots.pay(endpoint, count=len(get_args(Probe)))
        started_at = clock.now()
        signs_time = schemes.recipe_of(endpoint.signature_scheme).signs_time
        probes = _requests(endpoint, signing, now=int(started_at.timestamp()), signs_time=signs_time)
        replies = asyncio.run(_ask(probes, signing, transport, spacing=spacing))
    findings = diagnose(replies, fast_ms=_FAST_MS, slow_ms=_SLOW_MS, signs_time=signs_time)
    report = {
        "endpoint": endpoint.public_id,
        "url": endpoint.url,
        "signature_scheme": endpoint.signature_scheme,
        "checked_at": show_time(started_at),
        "verdict": overall(findings),
        "findings": [asdict(finding) for finding in findings],
    }
    CheckUp.objects.filter(endpoint=endpoint).update(report=report)
    return report


def last_report(endpoint: Endpoint) -> dict[str, Any] | None:
    found: dict[str, Any] | None = CheckUp.objects.filter(endpoint=endpoint).values_list("report", flat=True).first()
    return found


def _start(endpoint: Endpoint) -> None:
    with connection.cursor() as cursor:
        cursor.execute(START, {"endpoint_id": endpoint.id, "pause": PAUSE_SECONDS})
        if cursor.rowcount != 1:
            raise TooSoon


async def _ask(
    probes: Iterator[tuple[Probe, Outgoing]],
    signing: Signer,
    transport: httpx.AsyncBaseTransport | None,
    *,
    spacing: float,
) -> dict[Probe, Reply]:
    """One after the other, so that the receiver is timed and not its queue, and never faster than its rate limit; ends
    with the first that gets no answer."""
    deadline = time.monotonic() + _BUDGET_SECONDS
    replies: dict[Probe, Reply] = {}
    async with transport or test_event.transport() as carrier:
        for probe, request in probes:
            if probe == "plain" and not _refused(replies["genuine"]):
                continue
            if replies:
                await asyncio.sleep(spacing)
            left = deadline - time.monotonic()
            if left <= 0:
                break
            timed = request._replace(timeout_seconds=min(request.timeout_seconds, left))
            replies[probe] = signing.without_secrets(await send(timed, transport=carrier))
            if isinstance(replies[probe], Unanswered):
                break
    return replies


def _requests(endpoint: Endpoint, signing: Signer, *, now: int, signs_time: bool) -> Iterator[tuple[Probe, Outgoing]]:
    """Each but the duplicate has an id of its own, so that no answer comes from a receiver's memory."""
    genuine, plain, tampered, stale = (ids.show("evt", ids.new_uuid()) for _ in range(4))

    def signed(event_id: str, data: dict[str, Any], *, timestamp: int = now, attempt: int = 1) -> Outgoing:
        body = _body(event_id, data, at=now)
        return test_event.outgoing(
            endpoint, signing, event_id=event_id, type=TYPE, body=body, timestamp=timestamp, attempt=attempt
        )

    # 10.0 and the letters do not survive being parsed and written again in most languages; the plain body does.
    awkward = {"amount": 10.0, "name": "Zoë Øst & 東京"}
    yield "genuine", signed(genuine, awkward)
    yield "plain", signed(plain, {"amount": 10, "name": "Zoe"})
    # As long as the other, whatever form the body has.
    yield "tampered", _changed(signed(tampered, awkward))
    if signs_time:
        yield "stale", signed(stale, awkward, timestamp=now - _STALE_SECONDS)
    yield "duplicate", signed(genuine, awkward, attempt=2)


def _changed(request: Outgoing) -> Outgoing:
    """One amount is another, after it was signed."""
    return request._replace(body=request.body.replace(b'"amount":10.0', b'"amount":9999.5'))


def _body(event_id: str, data: dict[str, Any], *, at: int) -> bytes:
    """The duplicate's bytes are those of the first."""
    return test_event.render(event_id, type=TYPE, data=data, at=datetime.fromtimestamp(at, UTC))


def _refused(reply: Reply) -> bool:
    return isinstance(reply, Answered) and not accepted(reply)
