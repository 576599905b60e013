"""Calls: what is sent, what is tried again and how long it waits, what errors become."""

import asyncio
import inspect
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from webhooks_client import (
    AsyncClient,
    Client,
    Conflict,
    Invalid,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RateLimited,
    Refused,
    Retries,
    Unavailable,
    Unreachable,
)

from tests.platform import Platform, problem

EVENT = {"id": "evt_1", "type": "invoice.paid"}
ACCEPTED = httpx.Response(202, json=EVENT)
REFUSED_CONNECTION = httpx.ConnectError("connection refused")


def emit(client: Client) -> Any:
    return client.emit(consumer="acme", type="invoice.paid", data={"total": 5})


def test_an_emit_is_one_post_with_the_key_and_an_idempotency_key() -> None:
    platform = Platform([ACCEPTED])
    with platform.client() as client:
        assert emit(client) == EVENT
    [request] = platform.requests
    assert (request.method, str(request.url)) == ("POST", "http://platform/api/v1/events/")
    assert request.headers["authorization"] == "Bearer key"
    assert request.headers["content-type"] == "application/json"
    assert len(request.headers["idempotency-key"]) == 36
    assert platform.bodies() == [{"consumer": "acme", "type": "invoice.paid", "data": {"total": 5}}]


def test_optional_fields_are_sent_where_they_are_given() -> None:
    platform = Platform([ACCEPTED])
    platform.client().emit(
        consumer="acme",
        type="a.b",
        data={},
        id="own-1",
        api_version="2026-01",
        occurred_at=datetime(2026, 1, 2, tzinfo=UTC),
        ordering_key="order-7",
        idempotency_key="mine",
    )
    assert platform.keys() == ["mine"]
    assert platform.bodies() == [
        {
            "consumer": "acme",
            "type": "a.b",
            "data": {},
            "id": "own-1",
            "api_version": "2026-01",
            "occurred_at": "2026-01-02T00:00:00+00:00",
            "ordering_key": "order-7",
        }
    ]


def test_a_time_without_a_zone_is_refused_here() -> None:
    platform = Platform([ACCEPTED])
    with pytest.raises(ValueError, match="zone"):
        platform.client().emit(consumer="a", type="b", data={}, occurred_at=datetime(2026, 1, 2))  # noqa: DTZ001
    assert platform.requests == []


def test_nan_is_refused_here() -> None:
    platform = Platform([ACCEPTED])
    with pytest.raises(ValueError, match="Out of range"):
        platform.client().emit(consumer="a", type="b", data={"x": float("nan")})
    assert platform.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        REFUSED_CONNECTION,
        httpx.ReadTimeout("late"),
        httpx.RemoteProtocolError("cut off"),
        problem(408, "request_timeout"),
        problem(429, "rate_limited"),
        problem(500, "internal_error"),
        problem(503, "database_unavailable"),
        problem(409, "idempotency_in_progress"),
        problem(409, "event_id_in_progress"),
        httpx.Response(502, text="<html>a proxy's page</html>"),
    ],
    ids=lambda answer: answer.text[:20] if isinstance(answer, httpx.Response) else type(answer).__name__,
)
def test_what_may_pass_is_tried_again_with_the_same_key_and_body(answer: httpx.Response | Exception) -> None:
    platform = Platform([answer, answer, ACCEPTED])
    assert emit(platform.client()) == EVENT
    assert len(platform.requests) == 3
    assert len(set(platform.keys())) == 1
    assert len({request.content for request in platform.requests}) == 1
    assert platform.slept == [0.5, 1.0]


def test_two_calls_have_two_keys() -> None:
    platform = Platform([ACCEPTED])
    client = platform.client()
    emit(client), emit(client)
    assert len(set(platform.keys())) == 2


def test_waits_double_up_to_the_longest_and_end_after_so_many_tries() -> None:
    platform = Platform([REFUSED_CONNECTION])
    with pytest.raises(Unreachable, match="POST events/: connection refused"):
        emit(platform.client(retries=Retries(tries=7, longest_seconds=4, total_seconds=100)))
    assert len(platform.requests) == 7
    assert platform.slept == [0.5, 1.0, 2.0, 4, 4, 4]


def test_waits_are_chosen_at_random_below_that() -> None:
    platform = Platform([REFUSED_CONNECTION, ACCEPTED])
    client = Client(
        "http://platform",
        "key",
        transport=httpx.MockTransport(platform.handle),
        sleep=platform.slept.append,
        chance=lambda: 0.25,
    )
    emit(client)
    assert platform.slept == [0.125]


def test_retry_after_is_waited_for_in_full() -> None:
    platform = Platform([problem(429, "rate_limited", retry_after="7"), ACCEPTED])
    emit(platform.client())
    assert platform.slept == [7.5]


def test_nobody_waits_beyond_the_total_time() -> None:
    platform = Platform([problem(429, "rate_limited", retry_after="3600")])
    with pytest.raises(RateLimited) as caught:
        emit(platform.client())
    assert caught.value.retry_after == 3600
    assert (len(platform.requests), platform.slept) == (1, [])


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (401, NotAuthenticated), (403, NotAllowed), (404, NotFound), (409, Conflict), (413, Invalid)],
)
def test_a_refusal_is_an_error_of_its_kind_and_not_tried_again(status: int, kind: type[Refused]) -> None:
    platform = Platform([problem(status, "some_code", "In words.")])
    with pytest.raises(kind) as caught:
        emit(platform.client())
    assert (caught.value.status, caught.value.code, caught.value.detail) == (status, "some_code", "In words.")
    assert str(caught.value) == "some_code: In words."
    assert len(platform.requests) == 1


def test_an_outage_that_lasts_is_an_error_with_the_last_answer() -> None:
    platform = Platform([problem(503, "database_unavailable")])
    with pytest.raises(Unavailable) as caught:
        emit(platform.client(retries=Retries(tries=2)))
    assert caught.value.code == "database_unavailable"


def test_a_delete_whose_answer_was_lost_has_happened() -> None:
    platform = Platform([httpx.ReadTimeout("late"), problem(404, "not_found")])
    platform.client().delete_endpoint("ep_1", why="old")
    assert [str(request.url) for request in platform.requests] == ["http://platform/api/v1/endpoints/ep_1/?why=old"] * 2


def test_a_delete_of_what_is_not_there_is_an_error() -> None:
    with pytest.raises(NotFound):
        Platform([problem(404, "not_found")]).client().delete_endpoint("ep_1")


def test_an_answer_that_is_not_the_platforms_is_an_error() -> None:
    with pytest.raises(Unreachable, match="not the platform's"):
        list(Platform([httpx.Response(200, text="<html>")]).client().consumers())


def test_ids_cannot_leave_their_place_in_the_path() -> None:
    platform = Platform([httpx.Response(200, json={})])
    platform.client().consumer("a/../b?c")
    assert platform.requests[0].url.raw_path == b"/api/v1/consumers/a%2F..%2Fb%3Fc/"
    with pytest.raises(ValueError, match="is no id"):
        platform.client().consumer("..")


def test_a_list_follows_its_cursor_whatever_host_the_platform_thinks_it_has() -> None:
    first = {"results": [{"id": 1}], "next": "http://inner:1/api/v1/consumers/?limit=1&cursor=abc"}
    platform = Platform(
        [httpx.Response(200, json=first), httpx.Response(200, json={"results": [{"id": 2}], "next": None})]
    )
    found: list[Any] = list(platform.client().consumers(limit=1))
    assert found == [{"id": 1}, {"id": 2}]
    assert str(platform.requests[1].url) == "http://platform/api/v1/consumers/?cursor=abc&limit=1"


def test_a_feed_page_keeps_its_position_where_nothing_is_new() -> None:
    platform = Platform([httpx.Response(200, json={"results": [], "next": None})])
    page = platform.client().feed_page("acme", cursor="abc", wait=20, undelivered=True)
    assert (page.events, page.cursor, page.more) == ([], "abc", False)
    assert dict(platform.requests[0].url.params) == {"cursor": "abc", "wait": "20", "undelivered": "true"}
    # The platform may hold its answer back so long.
    assert platform.requests[0].extensions["timeout"]["read"] == 50


def test_a_replay_names_its_filter() -> None:
    platform = Platform([httpx.Response(202, json={})])
    platform.client().start_replay(endpoint="ep_1", since=datetime(2026, 1, 2, tzinfo=UTC), rate_per_second=5)
    platform.client().preview_replay(endpoint="ep_1")
    assert platform.bodies() == [
        {"rate_per_second": 5, "endpoint": "ep_1", "since": "2026-01-02T00:00:00+00:00"},
        {"endpoint": "ep_1", "dry_run": True},
    ]


def test_the_asynchronous_client_does_the_same() -> None:
    first = {"results": [{"id": 1}], "next": "http://x/?cursor=abc"}
    last = {"results": [{"id": 2}], "next": None}
    platform = Platform([REFUSED_CONNECTION, ACCEPTED, httpx.Response(200, json=first), httpx.Response(200, json=last)])

    async def run() -> list[Any]:
        async with platform.async_client() as client:
            event: Any = await client.emit(consumer="acme", type="a.b", data={})
            assert event == EVENT
            return [each async for each in client.consumers()]

    assert asyncio.run(run()) == [{"id": 1}, {"id": 2}]
    assert len({request.headers["idempotency-key"] for request in platform.requests[:2]}) == 1
    assert platform.slept == [0.5]


def test_both_clients_have_the_same_calls_with_names_and_words() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")} - {"close", "aclose"}

    assert public(Client) == public(AsyncClient)
    assert Client.emit.__name__ == "emit"
    assert (inspect.getdoc(Client.emit) or "").startswith("Emit one event.")


def test_the_key_does_not_show() -> None:
    assert "key" not in repr(Platform([ACCEPTED]).client())
    with pytest.raises(Unreachable) as caught:
        emit(Platform([REFUSED_CONNECTION]).client(retries=Retries(tries=1)))
    assert "Bearer" not in json.dumps(str(caught.value))


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"id": 5}', b"<html>"])
def test_an_answer_that_is_no_event_does_not_count_as_accepted(content: bytes) -> None:
    with pytest.raises(Unreachable, match="not the platform's"):
        Platform([httpx.Response(200, content=content)]).client().emit(consumer="acme", type="a.b", data={})


def test_an_answer_that_cannot_be_unpacked_is_asked_for_again() -> None:
    broken = httpx.DecodingError("not gzip")
    platform = Platform([broken, httpx.Response(202, json={"id": "evt_1"})])
    assert platform.client().emit(consumer="acme", type="a.b", data={})["id"] == "evt_1"
    assert len(set(platform.keys())) == 1
