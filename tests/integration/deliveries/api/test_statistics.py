"""endpoints/{id}/stats/ and consumers/{id}/stats/: what the pump and the web server counted, by span."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from deliveries.statistics import rollup
from subscriptions import consumers
from subscriptions.models import Consumer
from tests.conftest import Api, PumpRunner
from tests.walk import accept, answering, new_endpoint, pass_time

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = {"1h": (60, 60), "24h": (96, 900), "7d": (84, 7200), "30d": (90, 28_800)}


def counts(figures: dict[str, Any]) -> tuple[int, int, int, int]:
    return figures["attempts"], figures["delivered"], figures["failed"], figures["dead"]


def test_an_endpoints_outcomes_are_counted_and_its_times_estimated(
    pump: PumpRunner, acme: Consumer, acme_api: Api
) -> None:
    endpoint = new_endpoint(acme, event_types=["a.b"], retry_schedule=[0])
    other = new_endpoint(acme, event_types=["c.d"])
    accept(acme, 3, type="a.b")
    accept(acme, 2, type="c.d")
    pump.run(transport=answering(200))
    accept(acme, 1, type="a.b")
    pump.run(transport=answering(500))

    one, another = (acme_api.get(f"endpoints/{each.public_id}/stats/") for each in (endpoint, other))

    assert (one.status_code, one.json()["endpoint"], one.json()["span"]) == (200, endpoint.public_id, "24h")
    total = one.json()["total"]
    assert counts(total) == (4, 3, 1, 1)
    assert total["success_rate"] == 0.75
    assert 0 < total["duration_ms"]["p50"] <= total["duration_ms"]["p95"] <= total["duration_ms"]["p99"]
    assert 0 < total["latency_ms"]["p50"] <= total["latency_ms"]["p99"]
    assert counts(another.json()["total"]) == (2, 2, 0, 0)


def test_a_consumers_figures_are_those_of_all_its_endpoints_and_of_what_was_accepted(
    pump: PumpRunner, acme: Consumer, acme_api: Api
) -> None:
    for _ in range(2):
        new_endpoint(acme)
    accept(acme, 3)
    pump.run(transport=answering(200))

    shown = acme_api.get("consumers/acme/stats/", span="1h").json()

    assert (shown["consumer"], shown["span"], shown["step_seconds"]) == ("acme", "1h", 60)
    assert (shown["total"]["accepted"], counts(shown["total"])) == (3, (6, 6, 0, 0))
    assert sum(bucket["accepted"] for bucket in shown["buckets"]) == 3
    assert sum(bucket["delivered"] for bucket in shown["buckets"]) == 6


@pytest.mark.parametrize("span", STEPS)
def test_a_span_is_cut_into_steps_the_empty_ones_too_up_to_now(span: str, acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)
    before = datetime.now(UTC)

    shown = acme_api.get(f"endpoints/{endpoint.public_id}/stats/", span=span).json()

    count, seconds = STEPS[span]
    assert (shown["span"], len(shown["buckets"]), shown["step_seconds"]) == (span, count, seconds)
    begins = [datetime.fromisoformat(bucket["at"]) for bucket in shown["buckets"]]
    assert begins[0] == datetime.fromisoformat(shown["since"])
    assert {later - earlier for earlier, later in pairwise(begins)} == {timedelta(seconds=seconds)}
    assert begins[-1] <= datetime.now(UTC)
    assert before < begins[-1] + timedelta(seconds=seconds)
    nothing = {"p50": None, "p95": None, "p99": None}
    assert {key: shown["total"][key] for key in ("success_rate", "duration_ms", "latency_ms")} == {
        "success_rate": None,
        "duration_ms": nothing,
        "latency_ms": nothing,
    }


def test_what_happened_days_ago_is_in_the_longer_spans_alone(pump: PumpRunner, acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)
    accept(acme, 2)
    pump.run(transport=answering(200))
    pass_time(days=2)
    rollup.sum_up(now=datetime.now(UTC))

    delivered = {
        span: acme_api.get(f"endpoints/{endpoint.public_id}/stats/", span=span).json()["total"]["delivered"]
        for span in STEPS
    }

    assert delivered == {"1h": 0, "24h": 0, "7d": 2, "30d": 2}


@pytest.mark.parametrize("wrong", ["", "1d", "24H", "90d"])
def test_a_span_that_there_is_not_is_refused(wrong: str, acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)
    for path in ("consumers/acme/stats/", f"endpoints/{endpoint.public_id}/stats/"):
        answer = acme_api.get(path, span=wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
        assert answer.json()["detail"] == "`span` is one of 1h, 24h, 7d, 30d."


def test_nobody_reads_the_figures_of_another_consumer(acme_api: Api) -> None:
    other = consumers.create(uid="globex", name="Globex")
    endpoint = new_endpoint(other)
    paths = ["consumers/globex/stats/", f"consumers/{other.public_id}/stats/", f"endpoints/{endpoint.public_id}/stats/"]
    assert [acme_api.get(path).status_code for path in paths] == [404, 404, 404]
