"""Slow clients at a web server that runs as in production: slow bodies, slow headers, idle connections, readers that
read nothing. Emits go on meanwhile, and each of them is answered or cut off in the end."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import psycopg
import pytest
from django.conf import settings

from deliveries.models import Event
from subscriptions import keys
from subscriptions.models import Consumer, Role
from tests.local import wait_until
from tests.slow_clients import SlowClient, slow_body, slow_clients, wait_answered, wait_closed
from tests.stack import Stack, StartStack, orm_database_url

# With the cookie of a form, as any visitor has one: without it, a form is refused before its body is read.
FORM = f"Content-Type: application/x-www-form-urlencoded\r\nCookie: csrftoken={'a' * 32}\r\n"
EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}
# Longer than a test takes: whoever is answered within it was not answered because the time was up.
NEVER = "120"


@pytest.fixture
def emit(acme: Consumer) -> Callable[[Stack], httpx.Response]:
    key = keys.issue(role=Role.PRODUCER)[1]

    def send(stack: Stack) -> httpx.Response:
        """On a connection of its own: one that is kept might belong to the process that still answers."""
        url, headers = f"{stack.url}/api/v1/events/", {"Authorization": f"Bearer {key}"}
        return httpx.post(url, json=EVENT, headers=headers, timeout=20)

    return send


def the_login(acme: Consumer) -> bytes:
    return slow_body("/admin/login/", headers=FORM)


def the_portals_entrance(acme: Consumer) -> bytes:
    return slow_body("/portal/enter/nothing/", headers=FORM)


def an_api_route_with_a_consumers_key(acme: Consumer) -> bytes:
    key = keys.issue(role=Role.CONSUMER, consumer=acme)[1]
    headers = f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    return slow_body("/api/v1/consumers/acme/endpoints/", headers=headers)


def the_emit_itself(acme: Consumer) -> bytes:
    key = keys.issue(role=Role.PRODUCER)[1]
    headers = f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    return slow_body("/api/v1/events/", headers=headers)


ADDRESSES = [the_login, the_portals_entrance, an_api_route_with_a_consumers_key, the_emit_itself]


@contextmanager
def forty_at_each_address(stack: Stack, acme: Consumer) -> Iterator[list[list[SlowClient]]]:
    with ExitStack() as opened:
        yield [opened.enter_context(slow_clients(stack.url, request(acme), count=40)) for request in ADDRESSES]


def test_emits_go_on_while_forty_slow_bodies_are_waited_for_at_each_door(
    start_stack: StartStack, acme: Consumer, emit: Callable[[Stack], httpx.Response]
) -> None:
    stack = start_stack("web", REQUEST_BODY_TIMEOUT_SECONDS=NEVER)
    with forty_at_each_address(stack, acme) as waiting:
        assert [emit(stack).status_code for _ in range(20)] == [202] * 20
        assert {client.look().answer for clients in waiting for client in clients} == {b""}
    assert Event.objects.count() == 20


def test_forty_slow_bodies_at_each_door_are_answered_408_when_their_time_is_up(
    start_stack: StartStack, acme: Consumer, emit: Callable[[Stack], httpx.Response]
) -> None:
    stack = start_stack("web", REQUEST_BODY_TIMEOUT_SECONDS="1")
    with forty_at_each_address(stack, acme) as waiting:
        for clients in waiting:
            wait_answered(clients, 408)
        assert emit(stack).status_code == 202
        for pages in waiting[:2]:
            assert b"content-type: text/plain" in pages[0].answer.lower()
            assert pages[0].body.startswith(b"The body did not arrive in time.")
        for routes in waiting[2:]:
            problem = json.loads(routes[0].body)
            assert (problem["status"], problem["code"]) == (408, "request_timeout")
            assert b"content-type: application/problem+json" in routes[0].answer.lower()
    assert Event.objects.count() == 1


def test_emits_go_on_beside_four_hundred_slow_bodies_and_few_database_connections_are_open(
    start_stack: StartStack, acme: Consumer, emit: Callable[[Stack], httpx.Response]
) -> None:
    stack = start_stack("web", REQUEST_BODY_TIMEOUT_SECONDS=NEVER)
    with (
        slow_clients(stack.url, an_api_route_with_a_consumers_key(acme), count=200),
        slow_clients(stack.url, the_login(acme), count=200),
    ):
        assert [emit(stack).status_code for _ in range(20)] == [202] * 20
        with psycopg.connect(orm_database_url()) as connection:
            [[count]] = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
    # Two processes, each with its slots and a moment's connection for statistics; this test's two.
    assert count <= 2 * (settings.WEB_SLOTS + 1) + 2


def test_a_client_that_ignores_its_408_is_cut_off_and_its_thread_ends(start_stack: StartStack, acme: Consumer) -> None:
    stack = start_stack(
        "web",
        REQUEST_BODY_TIMEOUT_SECONDS="0.5",
        GRANIAN_HTTP1_HEADER_READ_TIMEOUT="500",
        CONNECTION_STALL_SECONDS="1",
    )
    with slow_clients(stack.url, the_login(acme), count=40) as clients:
        wait_answered(clients, 408)
        wait_closed(clients)


def test_a_body_that_comes_in_pieces_but_in_time_is_taken(start_stack: StartStack, acme: Consumer) -> None:
    stack = start_stack("web", REQUEST_BODY_TIMEOUT_SECONDS=NEVER)
    key = keys.issue(role=Role.PRODUCER)[1]
    headers = f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    body = json.dumps(EVENT).encode()
    first = slow_body("/api/v1/events/", headers=headers, length=len(body), first=body[:5])
    with (
        slow_clients(stack.url, the_login(acme), count=40),
        slow_clients(stack.url, first, count=1) as [client],
    ):
        client.send(body[5:20])
        client.send(body[20:])
        wait_answered([client], 202)


def test_slow_headers_and_silent_and_idle_connections_are_closed(start_stack: StartStack) -> None:
    stack = start_stack("web", GRANIAN_HTTP1_HEADER_READ_TIMEOUT="1000")
    sent = {
        "silent": b"",
        "one byte": b"P",
        "half a line": b"GET /heal",
        "half the headers": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "half of HTTP/2's greeting": b"PRI * HTTP/2.0\r\n",
        "idle after an answer": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    }
    clients = {name: SlowClient(stack.url, data) for name, data in sent.items()}
    wait_closed(list(clients.values()))
    assert clients["idle after an answer"].status == 200
    for client in clients.values():
        client.close()


def test_readers_that_read_nothing_hold_no_thread_and_are_cut_off(
    start_stack: StartStack, emit: Callable[[Stack], httpx.Response]
) -> None:
    """Static files are the largest answers that anybody may ask for."""
    stack = start_stack("web", GRANIAN_HTTP1_HEADER_READ_TIMEOUT="500", CONNECTION_STALL_SECONDS="3")
    files = "".join("GET /static/unfold/css/styles.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" for _ in range(40))
    with slow_clients(stack.url, files.encode(), count=40) as clients:
        assert [emit(stack).status_code for _ in range(20)] == [202] * 20
        wait_until(lambda: cut(stack) == len(clients), seconds=60)


def cut(stack: Stack) -> int:
    """How many connections the web server says it has cut."""
    return sum(map(int, re.findall(r'"connections.cut","count":(\d+)', stack.log("web", lines=500))))


def test_a_page_takes_a_few_kibibytes_and_refuses_more_without_reading_it(start_stack: StartStack) -> None:
    stack = start_stack("web", REQUEST_BODY_TIMEOUT_SECONDS=NEVER)
    for path in ("/admin/login/", "/portal/enter/nothing/", "/", "/healthz"):
        sent = slow_body(path, headers=FORM, length=10_000_000)
        with slow_clients(stack.url, sent, count=1) as clients:
            wait_answered(clients, 413)


def test_the_api_refuses_ten_megabytes_without_reading_them(start_stack: StartStack, acme: Consumer) -> None:
    stack = start_stack("web", REQUEST_BODY_TIMEOUT_SECONDS=NEVER)
    key = keys.issue(role=Role.PRODUCER)[1]
    headers = f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    for path in ("events/", "events/batch/", "consumers/", "consumers/acme/endpoints/", "event-types/"):
        sent = slow_body(f"/api/v1/{path}", headers=headers, length=10_000_000)
        with slow_clients(stack.url, sent, count=1) as clients:
            wait_answered(clients, 413)
            assert json.loads(clients[0].body)["code"] == "payload_too_large"


def test_half_a_form_is_not_acted_on(start_stack: StartStack) -> None:
    stack = start_stack("web")
    with slow_clients(stack.url, slow_body("/admin/login/", headers=FORM, first=b"a=b&c"), count=1) as [client]:
        client.half_close()
        wait_answered([client], 400)
        assert client.body.startswith(b"The body is shorter than its Content-Length.")
