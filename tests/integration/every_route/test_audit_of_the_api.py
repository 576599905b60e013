"""S16: every route of the URL map that changes something leaves exactly one audit entry: who, what, how many, why.

Generated from `webhooks_platform.urls`: a new route fails here until `ACTIONS` says what it writes, or `EXEMPT` why it
writes nothing.
"""

from typing import Any

import pytest

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.health import lifecycle
from subscriptions import keys
from subscriptions.models import Consumer, Endpoint, Role
from subscriptions.signing import schemes
from tests.audit import entries
from tests.conftest import Api
from tests.console import dead_letters
from tests.receiver import Receiver
from tests.routes import SEND_AT_ONCE, Route, call_name, calls

pytestmark = pytest.mark.django_db(transaction=True)

EXEMPT = {
    ("events", "POST"): "an event is its own record, and there are thousands a second",
    ("event-batch", "POST"): "as above",
}
# What each of the others writes: the action, its target and how many. `answer` is the answer's body.
ACTIONS: dict[tuple[str, str], tuple[str, str, int]] = {
    ("consumers", "POST"): ("consumer.created", "{answer[id]}", 1),
    ("consumer", "PATCH"): ("consumer.changed", "{consumer_id}", 1),
    ("consumer", "DELETE"): ("consumer.deleted", "{consumer_id}", 1),
    ("keys", "POST"): ("key.issued", "{answer[id]}", 1),
    ("key", "DELETE"): ("key.revoked", "{key}", 1),
    ("key-rotate", "POST"): ("key.rotated", "{key}", 1),
    ("portal-link", "POST"): ("portal.link_created", "{consumer_id}", 1),
    ("endpoints", "POST"): ("endpoint.created", "{answer[id]}", 1),
    ("endpoint", "PATCH"): ("endpoint.changed", "{endpoint}", 1),
    ("endpoint", "DELETE"): ("endpoint.deleted", "{endpoint}", 1),
    ("rotate-secret", "POST"): ("endpoint.secret_rotated", "{endpoint}", 1),
    ("pause", "POST"): ("endpoint.paused", "{endpoint}", 1),
    ("resume", "POST"): ("endpoint.resumed", "{endpoint}", 1),
    ("test", "POST"): ("endpoint.tested", "{endpoint}", 1),
    ("check-up", "POST"): ("endpoint.checked_up", "{endpoint}", 1),
    ("signature-profiles", "POST"): ("signature_profile.created", "{answer[name]}", 1),
    ("signature-profile", "PATCH"): ("signature_profile.changed", "{profile}", 1),
    ("signature-profile", "DELETE"): ("signature_profile.deleted", "{profile}", 1),
    ("event-types", "POST"): ("event_type.created", "{answer[name]}", 1),
    ("event-type", "PATCH"): ("event_type.changed", "{name}", 1),
    # It is in use.
    ("event-type", "DELETE"): ("event_type.archived", "{name}", 1),
    ("delivery-replay", "POST"): ("delivery.replayed", "{delivery}", 1),
    ("replays", "POST"): ("replay.started", "{answer[id]}", 3),
    ("replay-cancel", "POST"): ("replay.cancelled", "{replay}", 3),
}
CALLS = calls("POST", "PUT", "PATCH", "DELETE")
AUDITED = [(route, method) for route, method in CALLS if (route.name, method) not in EXEMPT]


@pytest.fixture
def things(acme: Consumer, receiver: Receiver) -> dict[str, str]:
    """One of everything that a path can name."""
    endpoint, [delivery, *_] = dead_letters(acme, 3, url=receiver.url)
    key, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    job = replay.start(Filter(endpoint_id=endpoint.id), consumer=acme, rate_per_second=1, requested_by="test")
    schemes.create(name="own-way", signed="{body}")
    return {
        "profile": "own-way",
        "consumer": "acme", "consumer_id": acme.public_id, "endpoint": endpoint.public_id, "key": key.public_id,
        "delivery": delivery.public_id, "replay": job.public_id, "name": "invoice.paid",
    }  # fmt: skip


def new_key(role: Role, consumer: Consumer | None = None) -> tuple[str, Api]:
    """How the log names the caller, and the caller."""
    key, secret = keys.issue(role=role, consumer=consumer)
    return f"key {key.public_id} ({role})", Api(secret)


def send(api: Api, route: Route, method: str, things: dict[str, str], *, why: Any, **headers: str) -> Any:
    path = route.path(things)
    if method == "DELETE":
        return api.delete(f"{path}?why={why}")
    body = {**(route.good_body(method) or {}), "why": why}
    return api.post(path, body, headers=headers) if method == "POST" else api.patch(path, body)


def prepare(route: Route) -> None:
    if route.name == "resume":
        lifecycle.pause(Endpoint.objects.get(), reason="for the test")


def test_s16_every_route_that_changes_something_is_described_here() -> None:
    assert {(route.name, method) for route, method in CALLS} == {*ACTIONS, *EXEMPT}


@pytest.mark.parametrize(("route", "method"), AUDITED, ids=call_name)
def test_s16_a_change_by_key_leaves_exactly_one_entry(route: Route, method: str, things: dict[str, str]) -> None:
    prepare(route)
    who, api = new_key(Role.OPERATOR)

    answer = send(api, route, method, things, why="They asked.")

    assert answer.status_code < 300, answer.content
    action, target, count = ACTIONS[route.name, method]
    body = answer.json() if answer.content else {}
    assert entries() == [(who, action, target.format(**things, answer=body), count, "They asked.")]


@pytest.mark.parametrize(("route", "method"), AUDITED, ids=call_name)
def test_s16_a_refused_change_leaves_none(route: Route, method: str, things: dict[str, str]) -> None:
    prepare(route)
    _, api = new_key(Role.OPERATOR)

    answer = send(api, route, method, things, why="x" * 501)

    assert (answer.status_code, entries()) == (400, [])


ONCE = [(route, method) for route, method in AUDITED if method == "POST" and route.name not in SEND_AT_ONCE]


@pytest.mark.parametrize(("route", "method"), ONCE, ids=call_name)
def test_s16_a_repeated_request_leaves_one_entry(route: Route, method: str, things: dict[str, str]) -> None:
    prepare(route)
    _, api = new_key(Role.OPERATOR)
    key = {"Idempotency-Key": "the same"}

    answers = [send(api, route, method, things, why="once", **key) for _ in range(2)]

    assert answers[1].headers["Idempotent-Replayed"] == "true"
    assert [entry.action for entry in entries()] == [ACTIONS[route.name, method][0]]


@pytest.mark.parametrize("role", Role)
def test_s16_the_entry_names_the_key_and_its_role(role: Role, acme: Consumer, things: dict[str, str]) -> None:
    who, api = new_key(role, acme if role is Role.CONSUMER else None)

    api.post(f"endpoints/{things['endpoint']}/pause/")

    assert entries() == [(who, "endpoint.paused", things["endpoint"], 1, "")]


@pytest.mark.parametrize("name", EXEMPT)
def test_s16_an_emit_writes_none(name: tuple[str, str], things: dict[str, str], producer: Api) -> None:
    [(route, method)] = [call for call in CALLS if (call[0].name, call[1]) == name]

    assert producer.post(route.path({}), route.good_body(method)).status_code in (200, 202)
    assert entries() == []
