"""emit_many: split within the limits, in order, a result for each."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from webhooks_client import Refused, Retries, Unavailable, Unreachable

from tests.platform import Platform, accept_batch, problem


def events(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"consumer": "acme", "type": "a.b", "data": fields, "id": f"n-{number}"} for number in range(count)]


def sent_ids(platform: Platform) -> list[list[str]]:
    return [[event["id"] for event in body["events"]] for body in platform.bodies()]


def test_a_result_for_each_event_in_order_over_several_batches() -> None:
    platform = Platform([accept_batch])
    results = list(platform.client().emit_many(events(5), max_events=2))
    assert [result.item["id"] for result in results] == ["n-0", "n-1", "n-2", "n-3", "n-4"]
    assert [result.event and result.event["id"] for result in results] == ["n-0", "n-1", "n-2", "n-3", "n-4"]
    assert sent_ids(platform) == [["n-0", "n-1"], ["n-2", "n-3"], ["n-4"]]
    assert len(set(platform.keys())) == 3


def test_a_batch_is_no_larger_than_the_limit_in_bytes() -> None:
    platform = Platform([accept_batch])
    one = len(json.dumps(events(1)[0], separators=(",", ":")))
    list(platform.client().emit_many(events(4), max_bytes=2 * one + 20))
    assert sent_ids(platform) == [["n-0", "n-1"], ["n-2", "n-3"]]
    assert all(len(request.content) <= 2 * one + 20 for request in platform.requests)


def test_nothing_to_emit_is_no_request() -> None:
    platform = Platform([accept_batch])
    assert list(platform.client().emit_many([])) == []
    assert platform.requests == []


def test_events_are_taken_from_the_source_as_they_are_sent() -> None:
    taken: list[str] = []

    def source() -> Any:
        for event in events(6):
            taken.append(event["id"])
            yield event

    results = Platform([accept_batch]).client().emit_many(source(), max_events=2)
    next(results)
    assert taken == ["n-0", "n-1", "n-2"]


@pytest.mark.parametrize(
    "refusal",
    [
        problem(413, "payload_too_large"),
        httpx.Response(400, json={"code": "invalid", "errors": [{"pointer": "/events", "detail": "1 to 2 events."}]}),
    ],
    ids=["bytes", "count"],
)
def test_a_batch_that_the_platform_finds_too_large_is_halved_in_order(refusal: httpx.Response) -> None:
    def at_most_two(request: httpx.Request) -> httpx.Response:
        return accept_batch(request) if len(json.loads(request.content)["events"]) <= 2 else refusal

    platform = Platform([at_most_two])
    results = list(platform.client().emit_many(events(5)))
    assert [result.item["id"] for result in results] == ["n-0", "n-1", "n-2", "n-3", "n-4"]
    assert sent_ids(platform)[1:] == [["n-0", "n-1"], ["n-2", "n-3", "n-4"], ["n-2"], ["n-3", "n-4"]]


def test_one_event_that_makes_the_whole_batch_unreadable_is_refused_and_the_others_go() -> None:
    # As the platform answers to a NUL, an integer of more than 64 bits, or too deep a nesting in any of them.
    def reads(request: httpx.Request) -> httpx.Response:
        return problem(400, "invalid_json") if b"n-3" in request.content else accept_batch(request)

    platform = Platform([reads])
    results = list(platform.client().emit_many(events(5)))
    assert [result.status for result in results] == ["accepted", "accepted", "accepted", "refused", "accepted"]
    assert (results[3].problem or {})["code"] == "invalid_json"
    assert sent_ids(platform)[1:] == [["n-0", "n-1"], ["n-2", "n-3", "n-4"], ["n-2"], ["n-3", "n-4"], ["n-3"], ["n-4"]]


def test_one_event_that_no_batch_can_hold_is_refused_and_the_others_go() -> None:
    def judge(request: httpx.Request) -> httpx.Response:
        return problem(413, "payload_too_large") if b"n-0" in request.content else accept_batch(request)

    results = list(Platform([judge]).client().emit_many(events(2)))
    assert [(result.status, result.stored) for result in results] == [("refused", False), ("accepted", True)]


@pytest.mark.parametrize("answer", [httpx.Response(400, text="<h1>Bad request</h1>"), problem(403, "forbidden")])
def test_a_refusal_that_is_not_about_the_events_refuses_none_of_them(answer: httpx.Response) -> None:
    platform = Platform([answer])
    with pytest.raises(Refused):
        list(platform.client().emit_many(events(2)))
    assert len(platform.requests) == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_answer_without_a_result_for_each_event_counts_for_none(count: int) -> None:
    results = [{"status": "accepted", "event": {"id": "x"}}] * count
    with pytest.raises(Unreachable, match="not the platform's"):
        list(Platform([httpx.Response(202, json={"results": results})]).client().emit_many(events(2)))


def test_refusals_and_duplicates_are_results_of_their_own() -> None:
    answer = {
        "results": [
            {"status": "refused", "problem": {"code": "consumer_not_found", "status": 404}},
            {"status": "duplicate", "event": {"id": "n-1"}},
        ]
    }
    results = list(Platform([httpx.Response(202, json=answer)]).client().emit_many(events(2)))
    assert [(result.status, result.stored) for result in results] == [("refused", False), ("duplicate", True)]
    assert results[0].problem == {"code": "consumer_not_found", "status": 404}


def test_what_is_no_json_is_refused_in_its_place_and_the_others_go() -> None:
    platform = Platform([accept_batch])
    given = events(3)
    given[1]["data"] = {"x": float("inf")}
    results = list(platform.client().emit_many(given))
    assert [result.status for result in results] == ["accepted", "refused", "accepted"]
    assert (results[1].problem or {})["code"] == "not_json"
    assert sent_ids(platform) == [["n-0", "n-2"]]


def test_a_batch_of_nothing_but_that_is_not_sent() -> None:
    platform = Platform([accept_batch])
    results = list(platform.client().emit_many([{"data": {1, 2}}]))
    assert [result.status for result in results] == ["refused"]
    assert platform.requests == []


def test_an_outage_in_the_middle_leaves_the_results_before_it() -> None:
    platform = Platform([accept_batch, problem(503, "database_unavailable")])
    results = platform.client(retries=Retries(tries=2)).emit_many(events(4), max_events=2)
    assert [next(results).item["id"], next(results).item["id"]] == ["n-0", "n-1"]
    with pytest.raises(Unavailable):
        next(results)


def test_the_asynchronous_client_does_the_same() -> None:
    platform = Platform([accept_batch])

    async def run() -> list[str]:
        async with platform.async_client() as client:
            return [result.item["id"] async for result in client.emit_many(events(3), max_events=2)]

    assert asyncio.run(run()) == ["n-0", "n-1", "n-2"]
