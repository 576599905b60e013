"""OPTIONS on every route of the URL map: which methods it has, for whoever has a key."""

from typing import Any

import pytest
from django.test import Client

from subscriptions import keys
from subscriptions.models import Consumer, Role
from tests.ledger import ledger
from tests.routes import Route, api_routes, call_name

pytestmark = pytest.mark.django_db


def options(route: Route, key: str | None) -> Any:
    path = route.path(dict.fromkeys(route.parameters, "nobody"))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Client().options(f"/api/v1/{path}", headers=headers)


@pytest.mark.parametrize("route", api_routes(), ids=call_name)
def test_options_names_the_methods_a_route_has_and_does_nothing(route: Route, acme: Consumer) -> None:
    callers = [
        keys.issue(role=Role.PRODUCER)[1],
        keys.issue(role=Role.CONSUMER, consumer=acme, scopes=["keys:read"])[1],
    ]
    before = ledger()

    answers = [options(route, key) for key in callers]

    assert [(answer.status_code, answer.content) for answer in answers] == [(204, b"")] * 2
    expected = {*route.roles, "OPTIONS"} | ({"HEAD"} if "GET" in route.roles else set())
    assert [set(answer["Allow"].split(", ")) for answer in answers] == [expected] * 2
    assert ledger() == before


@pytest.mark.parametrize("key", [None, "whk_nobodys"])
def test_options_answers_nobody_without_a_key(key: str | None) -> None:
    answers = [options(route, key) for route in api_routes()]
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(401, "not_authenticated")}
