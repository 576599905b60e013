"""B: a field or parameter that a route does not know is refused, and nothing is done.

The routes come from the URL map (tests/routes.py), what each of them knows from its view: a new route cannot escape.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from deliveries.models import Event
from deliveries.replaying.models import Replay
from subscriptions.access.scopes import ANY, held
from subscriptions.api.known_names import Names
from subscriptions.models import Consumer, Endpoint, EventType
from tests.conftest import Api, WebServer
from tests.ledger import ledger
from tests.routes import Route, call_name, calls
from tests.tenants import Tenants, plant

pytestmark = pytest.mark.django_db

ALL = ("GET", "POST", "PATCH", "DELETE")
ROLES = ("none", "producer", "operator", "consumer")


@pytest.fixture
def tenants(db: None) -> Tenants:
    return plant()


def send(tenants: Tenants, role: str, method: str, path: str, body: Any) -> Any:
    key = tenants.keys[role]
    client = Client(headers={} if key is None else {"Authorization": f"Bearer {key}"})
    client.handler = WebServer()
    content = b"" if body is None else json.dumps(body).encode()
    return client.generic(method, f"/api/v1/{path}", content, content_type="application/json")


def answers_by_role(tenants: Tenants, route: Route, method: str, query: str, body: Any) -> dict[str, Any]:
    path = f"{route.path(tenants.ours.things)}{query}"
    return {role: send(tenants, role, method, path, body) for role in ROLES}


def expected_codes(route: Route, method: str, code: str) -> dict[str, str]:
    """Who may not call it at all is told that and no more."""
    wanted = dict.fromkeys(ROLES, "forbidden") | {"none": "not_authenticated"}
    for role in route.roles[method]:
        wanted[role] = code if route.scopes[method] in {*held(role, None), ANY} else "scope_required"
    return wanted


def codes(answers: dict[str, Any]) -> dict[str, str]:
    return {role: answer.json()["code"] for role, answer in answers.items()}


# ── Every route, method and role ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("route", "method"), calls(*ALL), ids=call_name)
def test_b_an_unknown_field_is_refused_and_nothing_is_done(route: Route, method: str, tenants: Tenants) -> None:
    before = ledger()

    answers = answers_by_role(tenants, route, method, "", {**(route.good_body(method) or {}), "no~such/thing": 1})

    assert codes(answers) == expected_codes(route, method, "unknown_field")
    refusal = answers["operator"]
    assert (refusal.status_code, refusal["Content-Type"]) == (400, "application/problem+json")
    [error] = refusal.json()["errors"]
    assert error["pointer"] == "/no~0such~1thing"
    assert error["detail"].startswith("There is no field `no~such/thing`.")
    assert ledger() == before


@pytest.mark.parametrize(("route", "method"), calls(*ALL), ids=call_name)
def test_b_an_unknown_parameter_is_refused_and_nothing_is_done(route: Route, method: str, tenants: Tenants) -> None:
    before = ledger()

    answers = answers_by_role(tenants, route, method, "?no+such=x", route.good_body(method))

    assert codes(answers) == expected_codes(route, method, "unknown_parameter")
    refusal = answers["operator"]
    assert (refusal.status_code, refusal["Content-Type"]) == (400, "application/problem+json")
    [error] = refusal.json()["errors"]
    assert error["pointer"] == "?no such"
    assert error["detail"].startswith("There is no parameter `no such`.")
    assert ledger() == before


def misspelt(name: str) -> list[str]:
    return [f"{name}s", name[:-2] + name[-1], name.upper(), name.capitalize(), name.replace("_", "-") + "-"]


def field_paths(known: Names, inside: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, inner in known.items():
        yield inside, name
        yield from field_paths(inner or {}, (*inside, name))


@pytest.mark.parametrize(("route", "method"), calls("POST", "PATCH"), ids=call_name)
def test_b_a_misspelt_field_is_refused_with_the_nearest_one(route: Route, method: str, tenants: Tenants) -> None:
    before = ledger()
    surprises = []
    for inside, name in field_paths(route.fields(method)):
        for wrong in misspelt(name):
            body: Any = {wrong: 1}
            for step in reversed(inside):
                body = {step: body}
            answer = send(tenants, "operator", method, route.path(tenants.ours.things), body).json()
            shown = (answer["code"], answer["errors"][0]["pointer"], answer["detail"])
            near = f"There is no field `{wrong}`. Did you mean `{name}`?"
            if shown != ("unknown_field", "".join(f"/{step}" for step in (*inside, wrong)), near):
                surprises.append(shown)
    assert surprises == []
    assert ledger() == before


@pytest.mark.parametrize(("route", "method"), calls("GET", "DELETE"), ids=call_name)
def test_b_a_misspelt_parameter_is_refused_with_the_nearest_one(route: Route, method: str, tenants: Tenants) -> None:
    before = ledger()
    surprises = []
    for name in route.query_parameters(method):
        for wrong in [*misspelt(name), f"{name}[]"]:
            answer = send(tenants, "operator", method, f"{route.path(tenants.ours.things)}?{wrong}=true", None).json()
            if (answer["code"], answer["errors"]) != (
                "unknown_parameter",
                [{"pointer": f"?{wrong}", "detail": f"There is no parameter `{wrong}`. Did you mean `{name}`?"}],
            ):
                surprises.append((wrong, answer))
    assert surprises == []
    assert ledger() == before


@pytest.mark.parametrize(("route", "method"), calls(*ALL), ids=call_name)
def test_b_a_parameter_given_twice_is_refused(route: Route, method: str, tenants: Tenants) -> None:
    before = ledger()
    path = route.path(tenants.ours.things)
    for name in route.query_parameters(method):
        answer = send(tenants, "operator", method, f"{path}?{name}=true&{name}=false", route.good_body(method))
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
        assert answer.json()["errors"] == [{"pointer": f"?{name}", "detail": f"`{name}` is given more than once."}]
    assert ledger() == before


@pytest.mark.parametrize(("route", "method"), calls(*ALL), ids=call_name)
def test_b_an_empty_object_and_an_empty_body_hold_nothing_unknown(route: Route, method: str, tenants: Tenants) -> None:
    """Guards the tests above: what they see refused is the name."""
    path = f"{route.path(tenants.ours.things)}?"
    for answer in [send(tenants, "operator", method, path, {}), send(tenants, "operator", method, path, None)]:
        assert answer.status_code == 204 or answer.json().get("code") not in {"unknown_field", "unknown_parameter"}


# ── What was asked for is not what is done ───────────────────────────────────────────────────────────────────────────


def test_a_misspelt_replay_replays_nothing(operator: Api, acme: Consumer) -> None:
    answer = operator.post("replays/", {"endpont": "ep_1", "dryrun": True})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
    assert answer.json()["errors"] == [
        {"pointer": "/endpont", "detail": "There is no field `endpont`. Did you mean `endpoint`?"},
        {"pointer": "/dryrun", "detail": "There is no field `dryrun`. Did you mean `dry_run`?"},
    ]
    assert not Replay.objects.exists()


def test_a_replays_filter_knows_only_what_filters(operator: Api, acme: Consumer) -> None:
    answer = operator.post("replays/", {"filter": {"consumer": "acme", "dry_run": True}})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/filter/dry_run")
    assert not Replay.objects.exists()


def test_a_replays_filter_says_everything_once(operator: Api, acme: Consumer) -> None:
    answer = operator.post("replays/", {"filter": {"consumer": "acme"}, "consumer": "globex"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/filter/consumer")
    assert not Replay.objects.exists()


@pytest.mark.parametrize("value", ["yes", "1", "True", "TRUE", "", "true ", "on", "no"])
def test_a_flag_is_true_or_false_and_nothing_else(value: str, tenants: Tenants) -> None:
    answer = send(tenants, "consumer", "DELETE", f"endpoints/{tenants.ours.things['endpoint']}/?dry_run={value}", None)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    archived = send(tenants, "consumer", "GET", f"event-types/?archived={value}", None)
    assert (archived.status_code, archived.json()["code"]) == (400, "invalid_parameter")
    assert Endpoint.objects.filter(deleted_at__isnull=True).count() == 2


def test_a_delete_with_dry_run_in_its_body_deletes_nothing_and_says_where_it_belongs(tenants: Tenants) -> None:
    answer = send(tenants, "consumer", "DELETE", f"endpoints/{tenants.ours.things['endpoint']}/", {"dry_run": True})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
    assert answer.json()["detail"] == "There is no field `dry_run`. `dry_run` is a query parameter."
    assert Endpoint.objects.filter(deleted_at__isnull=True).count() == 2


def test_a_replay_with_dry_run_in_its_query_replays_nothing_and_says_where_it_belongs(tenants: Tenants) -> None:
    answer = send(tenants, "consumer", "POST", "replays/?dry_run=true", {"state": "dead"})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")
    assert answer.json()["detail"] == "There is no parameter `dry_run`. `dry_run` is a field of the body."
    assert Replay.objects.count() == 2


def test_a_list_does_not_overlook_a_filter_in_the_body(tenants: Tenants) -> None:
    answer = send(tenants, "consumer", "GET", "deliveries/", {"state": "dead"})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")


def test_a_filter_that_the_path_holds_already_is_not_overlooked(tenants: Tenants) -> None:
    ours, theirs = tenants.ours.things["endpoint"], tenants.theirs.things["endpoint"]
    answer = send(tenants, "operator", "GET", f"endpoints/{ours}/deliveries/?endpoint={theirs}", None)
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")


def test_an_event_is_looked_for_at_the_consumer_that_is_named(tenants: Tenants) -> None:
    event = tenants.ours.things["event"]
    for role, consumer, status in [("consumer", "globex", 404), ("operator", "globex", 404), ("operator", "", 404)]:
        answer = send(tenants, role, "GET", f"events/{event}/?consumer={consumer}", None)
        assert answer.status_code == status
    assert send(tenants, "consumer", "GET", f"events/{event}/?consumer=acme", None).status_code == 200


def test_a_new_event_type_cannot_be_archived_and_an_old_one_keeps_its_name(operator: Api) -> None:
    answer = operator.post("event-types/", {"name": "order.made", "archived": True})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
    assert operator.post("event-types/", {"name": "order.made"}).status_code == 201
    assert operator.patch("event-types/order.made/", {"name": "order.made"}).status_code == 200
    renamed = operator.patch("event-types/order.made/", {"name": "order.renamed", "description": "x"})
    assert (renamed.status_code, renamed.json()["errors"][0]["pointer"]) == (400, "/name")
    assert list(EventType.objects.values_list("name", "description")) == [("order.made", "")]


# ── Inside of what is sent ───────────────────────────────────────────────────────────────────────────────────────────


def test_b_an_unknown_field_of_a_version_is_pointed_at(operator: Api) -> None:
    versions = [{"api_version": "1"}, {"api_version": "2", "shema": {}}]
    answer = operator.post("event-types/", {"name": "order.made", "versions": versions})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
    assert answer.json()["errors"] == [
        {"pointer": "/versions/1/shema", "detail": "There is no field `shema`. Did you mean `schema`?"}
    ]
    assert not EventType.objects.exists()


def test_b_an_event_of_a_batch_with_an_unknown_field_is_refused_by_itself(producer: Api, acme: Consumer) -> None:
    good = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    assert producer.post("events/", good).status_code == 202
    answer = producer.post("events/batch/", {"events": [good, {**good, "orderingKey": "a"}, good]})
    assert answer.status_code == 202
    assert [result["status"] for result in answer.json()["results"]] == ["accepted", "refused", "accepted"]
    problem = answer.json()["results"][1]["problem"]
    assert (problem["status"], problem["code"]) == (400, "unknown_field")
    assert problem["errors"] == [
        {"pointer": "/orderingKey", "detail": "There is no field `orderingKey`. Did you mean `ordering_key`?"}
    ]
    assert Event.objects.count() == 3


def test_b_an_unknown_field_beside_a_batch_refuses_the_whole(producer: Api, acme: Consumer) -> None:
    good = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    assert producer.post("events/", good).status_code == 202
    answer = producer.post("events/batch/", {"events": [good], "event": good})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
    assert Event.objects.count() == 1


def test_b_an_emit_with_an_unknown_field_is_refused_before_django_too(producer: Api, acme: Consumer) -> None:
    good = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    assert producer.post("events/", good).status_code == 202
    for wrong in ("Data", "occured_at", "why", ""):
        answer = producer.post("events/", {**good, wrong: "2026-01-01T00:00:00Z"})
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
    assert Event.objects.count() == 1


def test_b_of_several_mistakes_the_unknown_name_is_told_first(operator: Api, acme: Consumer) -> None:
    endpoint = operator.post("consumers/acme/endpoints/", {"url": "no url", "evnt_types": []})
    event = operator.post("events/", {"consumer": 5, "typ": "invoice.paid"})
    missing = operator.patch("endpoints/ep_none/", {"url": 5, "nam": 5})
    both = operator.post("consumers/?nam=a", {"nam": "a"})
    answers = [endpoint, event, missing, both]
    assert [answer.status_code for answer in answers] == [400] * 4
    assert [answer.json()["code"] for answer in answers] == ["unknown_field"] * 3 + ["unknown_parameter"]


def test_b_what_is_the_callers_own_stays_free(operator: Api) -> None:
    free = {"Any": "name", "is-known": "here"}
    assert operator.post("consumers/", {"uid": "acme", "metadata": free}).json()["metadata"] == free
    version = {"api_version": "1", "schema": {"x-own": {"Any": 1}}, "example": {"any": {"thing": 1}}}
    assert operator.post("event-types/", {"name": "a.b", "versions": [version]}).status_code == 201
    endpoint = {"url": "http://127.0.0.1:9/", "headers": {"X-Any": "a"}, "metadata": free}
    assert operator.post("consumers/acme/endpoints/", endpoint).status_code == 201
    event = {"consumer": "acme", "type": "a.c", "data": {"endpont": {"dryrun": True}}}
    assert operator.post("events/", event).status_code == 202


def test_b_thousands_of_long_unknown_names_make_a_short_answer(operator: Api) -> None:
    names = [f"{'x' * 300}{number}" for number in range(700)]
    answers = [
        operator.post("consumers/", dict.fromkeys(names, 1)),
        operator.get("consumers/", **dict.fromkeys(names, 1)),
    ]
    for answer in answers:
        assert (answer.status_code, len(answer.json()["errors"])) == (400, 3)
        assert len(answer.content) < 2500


def test_a_head_request_is_answered_as_its_get_would_be(operator: Api, acme: Consumer) -> None:
    head = operator._client.head
    known = head("/api/v1/consumers/?limit=1", headers=operator._headers)
    unknown = head("/api/v1/consumers/?limits=1", headers=operator._headers)
    assert (known.status_code, unknown.status_code) == (200, 400)
