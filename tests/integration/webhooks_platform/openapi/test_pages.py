"""/api/schema/, /api/docs/ and /api/v1/: what somebody learns who has only the address, or only a key."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest
import yaml
from django.test import Client

from deliveries.upkeep import announce
from subscriptions import consumers, endpoints, event_types, keys
from subscriptions.models import Consumer, Role
from tests.conftest import Api, PumpRunner
from tests.console import dead_letters
from tests.receiver import Receiver
from tests.routes import calls
from tests.walk import accept
from webhooks_platform.openapi.document import document

pytestmark = pytest.mark.django_db


def get(path: str, **headers: str) -> Any:
    return Client().get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def bearer(role: Role, **fields: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {keys.issue(role=role, **fields)[1]}"}


# ── /api/schema/ ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/api/schema/", "/api/schema"])
def test_the_schema_is_for_everybody(path: str) -> None:
    answer = get(path)
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")
    assert json.loads(answer.content) == document()


def test_the_schema_is_yaml_where_that_is_asked_for() -> None:
    for answer in (get("/api/schema/?format=yaml"), get("/api/schema/", Accept="application/yaml")):
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/yaml")
        assert yaml.safe_load(answer.content) == document()
    assert get("/api/schema/?format=json", Accept="application/yaml")["Content-Type"] == "application/json"


def test_the_schema_is_sent_again_only_if_it_has_changed() -> None:
    etag = get("/api/schema/")["ETag"]
    again = get("/api/schema/", If_None_Match=etag)
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag)


@pytest.mark.parametrize(("query", "code"), [("?format=xml", "invalid_parameter"), ("?from=yaml", "unknown_parameter")])
def test_the_schema_refuses_what_it_does_not_know(query: str, code: str) -> None:
    answer = get(f"/api/schema/{query}")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["code"] == code


def test_a_key_that_is_not_valid_is_refused_although_none_is_needed() -> None:
    for value in ("Bearer whk_p_nobodys", "Basic abc", "Bearer "):
        answer = get("/api/schema/", Authorization=value)
        assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")


def test_with_a_key_the_catalogue_is_among_the_webhooks_and_without_one_it_is_not(acme: Consumer) -> None:
    schema = {"$defs": {"money": {"type": "integer"}}, "properties": {"amount": {"$ref": "#/$defs/money"}}}
    version = {"api_version": "2", "schema": schema, "example": {"amount": 1}}
    event_types.create(name="invoice.paid", description="Paid.", versions=[version])
    event_types.create(name="order.made")
    archived = event_types.create(name="gone.by")
    event_types.update(archived, {"archived": True})
    accept(acme, type="never.declared")

    public = get("/api/schema/").json()["webhooks"]
    answer = get("/api/schema/", **bearer(Role.PRODUCER))
    without_scope = get("/api/schema/", **bearer(Role.PRODUCER, scopes=["events:write"])).json()["webhooks"]

    shown = answer.json()
    assert set(shown["webhooks"]) - set(public) == {"invoice.paid (2)", "order.made"}
    assert without_scope == public
    assert answer["Cache-Control"] == "private, no-store"
    pytest.importorskip("openapi_spec_validator").validate(shown)
    body = shown["webhooks"]["invoice.paid (2)"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    fits = jsonschema_rs.Draft202012Validator({**body, "components": shown["components"]})
    wire = {"id": "evt_1", "type": "invoice.paid", "created_at": "x", "timestamp": "x", "api_version": "2"}
    assert fits.is_valid({**wire, "data": {"amount": 5}})
    assert not fits.is_valid({**wire, "data": {"amount": "much"}})


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_but_reading_is_served(method: str) -> None:
    for path in ("/api/schema/", "/api/docs/"):
        assert getattr(Client(), method)(path).status_code == 405


# ── What goes out is what its webhooks say ───────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db(transaction=True)
def test_a_request_on_the_wire_is_as_described(pump: PumpRunner, receiver: Receiver, acme: Consumer) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    endpoints.create(consumer=acme, url=receiver.url, payload_mode="thin")
    accept(acme, ordering_key="a")
    pump.run()
    assert [mismatch("any.event", request) for request in receiver.wait_for(2)] == [None, None]


@pytest.mark.django_db(transaction=True)
def test_an_operational_event_is_as_described(pump: PumpRunner, receiver: Receiver, acme: Consumer) -> None:
    endpoints.create(consumer=consumers.create(uid="operator", name="Us"), url=receiver.url)
    dead_letters(acme, 1)
    announce.announce_next()
    pump.run()
    requests = receiver.wait_for(1)
    assert [json.loads(request.body)["type"] for request in requests] == ["delivery.dead"]
    assert [mismatch("delivery.dead", request) for request in requests] == [None]


def mismatch(name: str, request: Any) -> str | None:
    hook, components = document()["webhooks"][name]["post"], document()["components"]
    schema = hook["requestBody"]["content"]["application/json"]["schema"]
    fits = jsonschema_rs.Draft202012Validator({**schema, "components": components}, validate_formats=True)
    errors = [error.message for error in fits.iter_errors(json.loads(request.body))]
    extra = set(json.loads(request.body)) - set(components["schemas"]["Webhook"]["properties"])
    named = [components["parameters"][each["$ref"].rpartition("/")[2]]["name"] for each in hook["parameters"]]
    missing = [name for name in named if name not in request.headers]
    return "; ".join([*errors, *extra, *missing]) or None


# ── /api/docs/ ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_reader_is_for_everybody_under_a_strict_policy_and_asks_no_foreign_host() -> None:
    answer = get("/api/docs/")
    page = answer.content.decode()

    assert (answer.status_code, answer["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = answer["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
    assert "unsafe" not in policy
    # In the page's own elements; what is inside of examples is text.
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', page)
    assert {address[0] for address in addresses} == {"/", "#"}
    assert re.findall(r"<script(?![^>]*\ssrc=)|\sstyle=|\son\w+=", page) == []


def test_the_reader_has_every_operation_field_code_and_webhook() -> None:
    page = get("/api/docs/").content.decode()
    ids = re.findall(r'<article id="(\w+)"', page)
    operations = [
        operation["operationId"]
        for item in [*document()["paths"].values(), *document()["webhooks"].values()]
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert sorted(ids) == sorted(operations)
    for schema in document()["components"]["schemas"].values():
        for name in schema.get("properties", {}):
            assert f"<code>{name}</code>" in page
    # Every link inside of the page leads somewhere.
    assert {link for link in re.findall(r'href="#([^"]+)"', page) if f'id="{link}"' not in page} == set()


# ── /api/v1/ ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", Role)
def test_the_index_says_truly_what_a_key_may_use(role: Role, acme: Consumer) -> None:
    secret = keys.issue(role=role, consumer=acme if role is Role.CONSUMER else None)[1]
    api = Api(secret)

    shown = api.get("").json()

    assert (shown["role"], shown["documentation"]) == (role, "http://testserver/api/docs/")
    assert shown["schema"] == "http://testserver/api/schema/"
    lines = {(line["method"], line["path"]): line for line in shown["routes"]}
    assert len(lines) == len(shown["routes"])
    answers = {}
    for route, method in calls("GET", "POST", "PATCH", "DELETE"):
        path = route.path(dict.fromkeys(route.parameters, "nobody"))
        call = getattr(api, method.lower())
        answers[method, f"/api/v1/{route.template}/" if route.template else "/api/v1/"] = (
            call(path, {"no_such": 1}) if method in ("POST", "PATCH") else call(path)
        ).status_code
    assert {call: line["allowed"] for call, line in lines.items()} == {
        call: status != 403 for call, status in answers.items()
    }


def test_whoever_has_no_key_is_told_where_the_docs_are() -> None:
    answer = get("/api/v1/")
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert answer["Link"] == '</api/docs/>; rel="service-doc", </api/schema/>; rel="service-desc"'
    assert "/api/docs/" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/", "/api", "/api/"])
def test_who_has_only_the_address_is_told_where_the_rest_is(path: str) -> None:
    told = Client().get(path)
    assert (told.status_code, told.json()) == (
        200,
        {
            "documentation": "http://testserver/api/docs/",
            "schema": "http://testserver/api/schema/",
            "index": "http://testserver/api/v1/",
        },
    )

    led = Client().get(path, headers={"Accept": "text/html,*/*"})
    assert (led.status_code, led["Location"], led["Vary"]) == (302, "/api/docs/", "Accept")


def test_an_address_where_nothing_is_says_where_the_docs_are() -> None:
    answer = Client().get("/api/v2/")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.json()["detail"].endswith("The API is described at /api/docs/.")
    assert 'rel="service-doc"' in answer["Link"]
