"""S11: for every route of the URL map, a consumer's key reaches nothing of another consumer's, and changes nothing.

Generated from `webhooks_platform.urls`: a route with an id that `Tenant.things` does not know fails these tests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from deliveries.endpoint_tests import check_up
from deliveries.models import Delivery
from subscriptions import consumers, endpoints, keys
from subscriptions.models import Role
from tests.conftest import Api
from tests.ledger import ledger
from tests.routes import Route, call_name, calls
from tests.walk import answering

pytestmark = pytest.mark.django_db

# Parameters that name what belongs to nobody: the catalogue is the same for all.
SHARED = {"name": "invoice.paid", "profile": "github"}
# POSTs without an id in their path that consumers may make: the fields by which they could name another's things.
NAMED_IN_BODY = {"replays": ["consumer", "endpoint"]}


@dataclass(frozen=True)
class Tenant:
    """A consumer with a key of its own and one of everything."""

    api: Api
    things: dict[str, str]
    # Whatever gives it away in somebody else's answer.
    marks: set[str]


@pytest.fixture
def ours(producer: Api) -> Tenant:
    return tenant("acme", producer)


@pytest.fixture
def theirs(producer: Api) -> Tenant:
    return tenant("globex", producer)


def tenant(uid: str, producer: Api) -> Tenant:
    # Declared once: a consumer sees no other types.
    producer.post("event-types/", {"name": SHARED["name"]})
    consumer = consumers.create(uid=uid, name=f"{uid} Inc")
    endpoint, _ = endpoints.create(consumer=consumer, url=f"http://127.0.0.1:9/{uid}", description=f"{uid}'s hook")
    event = producer.post("events/", {"consumer": uid, "type": "invoice.paid", "data": {"whose": f"{uid}'s data"}})
    key, secret = keys.issue(role=Role.CONSUMER, consumer=consumer, name=f"{uid}'s key")
    things = {
        "consumer": uid,
        "endpoint": endpoint.public_id,
        "event": event.json()["id"],
        "delivery": Delivery.objects.get(endpoint=endpoint).public_id,
        "key": key.public_id,
    }
    check_up.run(endpoint, transport=answering())
    api = Api(secret)
    things["replay"] = api.post("replays/", {"all": True}).json()["id"]
    return Tenant(api, things, {*things.values(), consumer.public_id})


def call(tenant: Tenant, method: str, path: str, body: Any) -> Any:
    if method == "GET":
        return tenant.api.get(path)
    if method == "DELETE":
        return tenant.api.delete(path)
    return (tenant.api.post if method == "POST" else tenant.api.patch)(path, body)


def owned(route: Route) -> list[str]:
    """The route's parameters that name what belongs to one consumer."""
    return [parameter for parameter in route.parameters if parameter not in SHARED]


def paths(route: Route, ours: Tenant, theirs: Tenant) -> Iterator[str]:
    """Every mix of our ids and theirs with at least one of theirs, their consumer by uid and by id."""
    for mix in product([False, True], repeat=len(owned(route))):
        if any(mix):
            chosen = {
                parameter: (theirs if is_theirs else ours).things[parameter]
                for parameter, is_theirs in zip(owned(route), mix, strict=True)
            }
            yield route.path({**SHARED, **chosen})
            if chosen.get("consumer") == theirs.things["consumer"]:
                by_id = next(mark for mark in theirs.marks if mark.startswith("con_"))
                yield route.path({**SHARED, **chosen, "consumer": by_id})


def status_for_a_consumer(route: Route, method: str) -> int:
    """404 says nothing about what exists; 403 is for what no consumer may do with anything."""
    return 404 if Role.CONSUMER in route.roles[method] else 403


ALL = ("GET", "POST", "PATCH", "DELETE")


@pytest.mark.parametrize(
    ("route", "method"), [(route, method) for route, method in calls(*ALL) if owned(route)], ids=call_name
)
def test_s11_anothers_ids_are_not_found_and_nothing_changes(
    route: Route, method: str, ours: Tenant, theirs: Tenant
) -> None:
    before = ledger()

    answers = {path: call(ours, method, path, route.good_body(method)) for path in paths(route, ours, theirs)}

    assert answers
    expected = status_for_a_consumer(route, method)
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(answers, expected)
    assert all(answer["Content-Type"] == "application/problem+json" for answer in answers.values())
    assert ledger() == before


@pytest.mark.parametrize(
    ("route", "method"), [(route, method) for route, method in calls(*ALL[1:]) if not owned(route)], ids=call_name
)
def test_s11_a_path_without_an_id_lets_nobody_reach_past_the_wall(
    route: Route, method: str, ours: Tenant, theirs: Tenant
) -> None:
    before = ledger()
    bodies = [route.good_body(method) or {}]
    if open_to_consumers := Role.CONSUMER in route.roles[method]:
        assert route.name in NAMED_IN_BODY, f"Say in NAMED_IN_BODY how {route.template} could name another's things."
        bodies = [{**bodies[0], name: theirs.things[name]} for name in NAMED_IN_BODY[route.name]]

    answers = [call(ours, method, route.path(SHARED), body) for body in bodies]

    assert {answer.status_code for answer in answers} == {404 if open_to_consumers else 403}
    assert ledger() == before


@pytest.mark.parametrize(("route", "method"), calls("GET"), ids=call_name)
def test_s11_what_a_consumer_reads_holds_nothing_of_anothers(
    route: Route, method: str, ours: Tenant, theirs: Tenant
) -> None:
    path = route.path({**SHARED, **ours.things})

    answers = [ours.api.get(path)]
    # Asking for them by a filter finds nothing either, and is refused where there is no such filter.
    answers += [ours.api.get(path, **{name: theirs.things[name]}) for name in ("consumer", "endpoint", "event")]

    assert answers[0].status_code == (200 if Role.CONSUMER in route.roles["GET"] else 403)
    assert {answer.status_code for answer in answers} <= {200, 400, 403, 404}
    assert [mark for mark in theirs.marks for answer in answers if mark in answer.content.decode()] == []


@pytest.mark.parametrize(
    ("route", "method"), [(route, method) for route, method in calls("GET") if owned(route)], ids=call_name
)
def test_s11_the_owner_finds_what_others_do_not(route: Route, method: str, theirs: Tenant) -> None:
    """Guards the tests above: their 404 is about whose it is, not about whether it is there."""
    assert theirs.api.get(route.path({**SHARED, **theirs.things})).status_code == 200


def test_s11_lists_hold_exactly_the_consumers_own_things(ours: Tenant, theirs: Tenant) -> None:
    shown = {
        "event": ours.api.get("events/"),
        "delivery": ours.api.get("deliveries/"),
        "endpoint": ours.api.get("consumers/acme/endpoints/"),
        "key": ours.api.get("consumers/acme/keys/"),
        "replay": ours.api.get("replays/"),
    }

    found = {name: [result["id"] for result in answer.json()["results"]] for name, answer in shown.items()}

    assert found == {name: [ours.things[name]] for name in shown}


def test_s11_a_filter_for_another_consumer_is_not_found(ours: Tenant, theirs: Tenant) -> None:
    answers = [
        ours.api.get("events/", consumer="globex"),
        ours.api.get("deliveries/", consumer="globex"),
        ours.api.get("deliveries/", endpoint=theirs.things["endpoint"]),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]


def test_s11_a_route_with_an_unknown_id_fails_these_tests(ours: Tenant, theirs: Tenant) -> None:
    route = Route(name="gadget", template="gadgets/{gadget}", roles={"GET": (Role.CONSUMER,)})

    with pytest.raises(KeyError, match="gadget"):
        list(paths(route, ours, theirs))
