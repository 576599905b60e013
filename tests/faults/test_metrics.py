"""/metrics of two web processes agrees with the database to the unit, though one is killed, and a worker too."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from deliveries.models import Attempt, Delivery, Event
from subscriptions import endpoints, keys
from subscriptions.models import Consumer, Role
from tests.local import wait_until
from tests.prometheus import INSTALLED, Prometheus, running_prometheus
from tests.receiver import Receiver, Reply
from tests.stack import Stack, StartStack

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

DEPLOY = Path(__file__).parents[2] / "deploy"
TOKEN = "a-token-of-more-than-16-characters"
SETTINGS = {
    "METRICS_TOKEN": TOKEN,
    "METRICS_CACHE_SECONDS": "0",
    "DELIVERY_LEASE_SECONDS": "3",
    "DELIVERY_LEASE_RENEW_SECONDS": "1",
    "DELIVERY_SWEEP_SECONDS": "0.3",
    # What the bad receiver is owed ends at once, instead of waiting behind its breaker.
    "BREAKER_FAILURES": "100000",
}
EVENTS = 400
KILLED_AT = 150


def test_counters_agree_with_the_ledger_after_kills(
    acme: Consumer, receiver: Receiver, start_stack: StartStack, tmp_path: Path
) -> None:
    receiver.answer = lambda received: Reply(500) if received.path == "/bad" else Reply()
    endpoints.create(consumer=acme, url=receiver.url, max_in_flight=20, retry_schedule=[0, 0, 0])
    endpoints.create(consumer=acme, url=receiver.url.rsplit("/", 1)[0] + "/bad", retry_schedule=[0])
    key = keys.issue(role=Role.PRODUCER)[1]
    stacks = [
        start_stack("web", "deliveries1", "background", "beat", **SETTINGS),
        start_stack("web", "deliveries2", **SETTINGS),
    ]
    urls = [stack.url for stack in stacks]
    with scraping(tmp_path, urls) as prometheus:
        emitted = Emitted(stacks, key)
        with ThreadPoolExecutor(4) as pool:
            sent = [pool.submit(emitted.emit, number) for number in range(EVENTS)]
            assert emitted.many.wait(60)
            # From this thread, as the stack wants it.
            stacks[0].kill("deliveries1")
            stacks[1].kill("web")
            for one in sent:
                one.result()
        stacks[0].restart("deliveries1")
        stacks[1].restart("web")
        wait_until(lambda: not Delivery.objects.exclude(state__in=["delivered", "dead"]).exists(), seconds=120)
        stacks[1].wait_ready()

        expected = ledger()
        assert expected["webhooks_events_accepted_total"] == EVENTS
        assert [figures(stack) for stack in stacks] == [expected, expected]
        if prometheus is not None:
            check_prometheus(prometheus, expected)


def scraping(folder: Path, urls: list[str]) -> AbstractContextManager[Prometheus | None]:
    """Where there is no Prometheus, the figures are compared all the same, as the web processes tell them."""
    if not INSTALLED:
        return nullcontext()
    return running_prometheus(folder, urls=urls, token=TOKEN, rules=DEPLOY / "prometheus" / "alerts.yml")


class Emitted:
    """Emits each event with a key of its own, to one web process and, where that is gone, to the other."""

    def __init__(self, stacks: list[Stack], key: str) -> None:
        self.many = threading.Event()
        self._clients = [stack.client(key, seconds=10) for stack in stacks]
        self._count = iter(range(EVENTS))

    def emit(self, number: int) -> None:
        body = {"consumer": "acme", "type": "load.test", "data": {"number": number}}
        for client in self._in_turn(number):
            try:
                answer = client.post("events/", json=body, headers={"Idempotency-Key": f"event-{number}"})
            except httpx.TransportError:
                continue
            if answer.status_code == 202:
                break
        else:
            raise AssertionError(f"event {number} was accepted by neither")
        if next(self._count) >= KILLED_AT:
            self.many.set()

    def _in_turn(self, number: int) -> Iterator[httpx.Client]:
        for step in range(20):
            yield self._clients[(number + step) % 2]


def ledger() -> dict[str, float]:
    return {
        "webhooks_events_accepted_total": Event.objects.count(),
        'webhooks_deliveries_total{state="delivered"}': Delivery.objects.filter(state="delivered").count(),
        'webhooks_deliveries_total{state="dead"}': Delivery.objects.filter(state="dead").count(),
        "webhooks_attempts_total": Attempt.objects.count(),
        "webhooks_attempt_duration_seconds_count": Attempt.objects.count(),
        "webhooks_delivery_latency_seconds_count": Delivery.objects.filter(state="delivered").count(),
        "webhooks_leases_lost_total": Attempt.objects.filter(error_kind="worker_lost").count(),
    }


def figures(stack: Stack) -> dict[str, float]:
    """What this web process tells, under the ledger's names."""
    answer = httpx.get(f"{stack.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            state = sample.labels.get("state")
            name = f'{sample.name}{{state="{state}"}}' if state else sample.name
            found[name] = found.get(name, 0) + sample.value
    return {name: found[name] for name in ledger()}


def check_prometheus(prometheus: Prometheus, expected: dict[str, float]) -> None:
    for name, value in expected.items():
        summed = "sum by (instance)" if name == "webhooks_attempts_total" else ""
        wait_until(lambda: prometheus.value(f"max({summed}({name}))") == value, seconds=60)  # noqa: B023
    for panel in json.loads((DEPLOY / "grafana" / "webhooks.json").read_text())["panels"]:
        for target in panel["targets"]:
            prometheus.ask(target["expr"].replace("$__rate_interval", "1m"))
    # Every name that the alerts ask for is known: none of the rules looks at nothing.
    assert {row["metric"]["instance"] for row in prometheus.ask("webhooks_oldest_due_seconds")} != set()
