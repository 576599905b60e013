"""console: how fast every page of console and portal answers on a large history.

`python -m benchmarks.measure.console [millions [folder [words]]]` runs it.

On a server of its own with the settings of `make up` (128 MB of shared buffers), filled by
benchmarks/load/thirty_days.py.
With a folder, the data stays there and the next run measures without filling; with words, only pages named so. The
portal is that of the busiest consumer, which has a twelfth of everything, and that of a quiet one. Each page is asked
for once in a row of all the others (cold: they have had the cache meanwhile), then three times (warm).
"""

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.load.thirty_days import fill
from benchmarks.measure import portal
from benchmarks.stand import stand

if TYPE_CHECKING:
    from django.test import Client


def main(attempts: int, folder: Path | None, only: str) -> None:
    with stand(folder, LOG_LEVEL="WARNING"):
        from deliveries.models import Event

        if not Event.objects.exists():
            fill(attempts)
        for name, cold, warm, queries in measure(only):
            print(f"{name:44} {cold:7.0f} ms cold  {warm:7.0f} ms warm  {queries:3} queries", flush=True)


def measure(only: str) -> Iterator[tuple[str, float, float, int]]:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    user, _ = User.objects.get_or_create(username="bench", is_superuser=True, is_staff=True)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    pages = {name: (client, f"/admin/{path}") for name, path in addresses().items()} | portal.pages()
    pages = {name: page for name, page in pages.items() if only in name}
    cold = {name: _timed(*page)[0] for name, page in pages.items()}
    for name, page in pages.items():
        with CaptureQueriesContext(connection) as queries:
            answers = [_timed(*page) for _ in range(3)]
        codes = {answer[1] for answer in answers} - {200, 302}
        shown = f"{name} {codes}" if codes else name
        yield shown, cold[name], statistics.median(answer[0] for answer in answers), len(queries) // 3


def _timed(client: "Client", path: str) -> tuple[float, int]:
    started = time.perf_counter()
    answer = client.get(path)
    return 1000 * (time.perf_counter() - started), answer.status_code


def addresses() -> dict[str, str]:
    """Every page, and every filter that people use, on the busiest subjects and on the quietest."""
    from deliveries.models import Delivery, Event
    from subscriptions.models import Consumer, Endpoint

    dead = Delivery.objects.filter(state="dead").order_by("-id")[0]
    sick = Consumer.objects.order_by("id")[0]
    quiet = Consumer.objects.order_by("-id")[0]
    worst = Endpoint.objects.filter(consumer=sick).order_by("id")[0].public_id
    calm = Endpoint.objects.filter(consumer=quiet).order_by("-id")[0].public_id
    producer_id = Event.objects.filter(producer_id__isnull=False).order_by("-id")[0].producer_id
    letters = {
        "": "", "worst endpoint": f"endpoint={worst}", "quiet endpoint": f"endpoint={calm}",
        "busiest consumer": f"consumer={sick.uid}", "quiet consumer": f"consumer={quiet.uid}",
        "common reason": "reason=attempts_exhausted", "rare reason": "reason=given_up",
        "absent reason": "reason=none",
        "common type": "event_type=invoice.paid", "rare type": "event_type=rare.type", "absent type": "event_type=none",
        "common answer": "error=http_503", "rare answer": "error=http_418", "absent answer": "error=http_999",
        "within 1 h": "within=1h", "within 30 d": "within=30d",
        "old days": "since=2020-01-01T00:00&until=2026-10-25T00:00",
        "worst, rare type": f"endpoint={worst}&event_type=rare.type",
        "worst, rare answer": f"endpoint={worst}&error=http_418", "worst, reason": f"endpoint={worst}&reason=expired",
        "busiest consumer, rare type": f"consumer={sick.uid}&event_type=rare.type",
        "type and answer": "event_type=invoice.paid&error=http_418", "type, 24 h": "event_type=rare.type&within=24h",
        "event id": f"q={dead.event.public_id}", "producer's id": f"q={producer_id}", "ordering key": "q=key-100",
        "nothing": "q=nothing-of-that-name",
    }  # fmt: skip
    pages = {f"dead letters, {name}".rstrip(", "): f"dead-letters/?{query}" for name, query in letters.items()}
    pages |= {f"preview, {name}".rstrip(", "): f"dead-letters/replay/?{query}" for name, query in letters.items()}
    pages["dead letters, deep"] = (
        f"dead-letters/?before={Delivery.objects.filter(state='dead').order_by('id')[1000].id}"
    )
    for name, text in {"1 h": "1h", "24 h": "24h", "7 d": "7d", "30 d": "30d"}.items():
        pages[f"overview, {name}"] = f"?range={text}"
        pages[f"worst endpoint, {name}"] = f"endpoints/{worst}/?range={text}"
        pages[f"busiest consumer, {name}"] = f"consumers/{sick.public_id}/?range={text}"
    for state in ("", "pending", "in_flight", "delivered", "dead"):
        pages[f"deliveries, {state}".rstrip(", ")] = f"deliveries/?state={state}"
        pages[f"deliveries, {state}, worst endpoint"] = f"deliveries/?state={state}&endpoint={worst}"
        pages[f"deliveries, {state}, quiet endpoint"] = f"deliveries/?state={state}&endpoint={calm}"
    return pages | {
        "quiet endpoint": f"endpoints/{calm}/", "quiet consumer": f"consumers/{quiet.public_id}/",
        "a delivery": f"deliveries/{dead.public_id}/", "an event": f"events/{dead.event_id}/",
        "events": "events/", "events, common type": "events/?type=invoice.paid",
        "events, rare type": "events/?type=rare.type",
        "events, absent type": "events/?type=none", "events, busiest consumer": f"events/?consumer={sick.uid}",
        "events, quiet consumer": f"events/?consumer={quiet.uid}",
        "events, quiet consumer, rare type": f"events/?consumer={quiet.uid}&type=rare.type",
        "endpoints": "endpoints/", "endpoints, failing": "endpoints/?status=failing",
        "endpoints, disabled": "endpoints/?status=disabled", "endpoints, by URL": "endpoints/?q=receiver-17",
        "endpoints, lowest success": "endpoints/?sort=success", "endpoints, slowest": "endpoints/?sort=latency",
        "endpoints, lowest success, 1 h": "endpoints/?sort=success&range=1h",
        "endpoints, slowest, 7 d": "endpoints/?sort=latency&range=7d",
        "endpoints, longest backlog": "endpoints/?sort=backlog",
        "consumers": "consumers/", "consumers, by name": "consumers/?q=bench-4", "replays": "replays/",
        "find, producer's id": f"find/?q={producer_id}", "find, nothing": "find/?q=nothing", "find, URL": "find/?q=r-1",
        "switches": "switches/", "audit log": "audit/", "audit log, of nobody": "audit/?actor=nobody",
        "audit log, of one": "audit/?target=dlv_77",
    }  # fmt: skip


if __name__ == "__main__":
    given = [*sys.argv[1:], "", "", ""]
    main(int(float(given[0] or "1") * 1_000_000), Path(given[1]) if given[1] else None, given[2])
