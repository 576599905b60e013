"""S14: a key does what its role and its scopes say, and no more: every route of the URL map by role and scope."""

from typing import Any

import pytest

from deliveries.api import events
from deliveries.endpoint_tests import check_up
from deliveries.models import Delivery
from subscriptions import endpoints, keys
from subscriptions.access import scopes
from subscriptions.api.views import PRODUCERS
from subscriptions.models import ApiKey, Consumer, EndpointStatus, Role
from tests.conftest import Api
from tests.ledger import ledger
from tests.receiver import Receiver
from tests.routes import Route, api_routes, call_name, calls
from tests.walk import accept, answered, answering, claim_for, new_endpoint, settle_all

pytestmark = pytest.mark.django_db

ALL = ("GET", "POST", "PATCH", "DELETE")
EVENT: dict[str, Any] = {"consumer": "acme", "type": "invoice.paid", "data": {}}


def key(role: Role, consumer: Consumer, names: set[str] | frozenset[str]) -> Api:
    own = consumer if role is Role.CONSUMER else None
    return Api(keys.issue(role=role, consumer=own, scopes=sorted(names))[1])


def call(api: Api, route: Route, method: str) -> Any:
    """Of what does not exist, and with nothing in it: past the door, it is refused for that or finds nothing."""
    path = route.path(dict.fromkeys(route.parameters, "nobody"))
    if method in ("GET", "DELETE"):
        return getattr(api, method.lower())(path)
    return getattr(api, method.lower())(path, {})


def test_every_method_of_every_route_declares_a_scope_that_each_of_its_roles_may_have() -> None:
    assert [
        (route.name, set(route.roles) ^ set(route.scopes))
        for route in api_routes()
        if set(route.roles) ^ set(route.scopes)
    ] == []
    impossible = [
        (route.name, method, role)
        for route, method in calls(*ALL)
        for role in route.roles[method]
        if route.scopes[method] not in {*scopes.POSSIBLE[role], scopes.ANY}
    ]
    assert impossible == []


def test_s14_nothing_but_the_index_is_for_every_key_whatever_its_scopes(acme: Consumer) -> None:
    assert [route.name for route, method in calls(*ALL) if route.scopes[method] == scopes.ANY] == ["index"]
    assert key(Role.CONSUMER, acme, {scopes.KEYS_READ}).get("").status_code == 200


SCOPED = [(route, method) for route, method in calls(*ALL) if route.scopes[method] != scopes.ANY]


@pytest.mark.parametrize(("route", "method"), SCOPED, ids=call_name)
def test_s14_the_one_scope_a_route_asks_for_is_enough_and_without_it_nothing_is(
    route: Route, method: str, acme: Consumer
) -> None:
    scope = route.scopes[method]
    for role in route.roles[method]:
        with_it, without = key(role, acme, {scope}), key(role, acme, scopes.POSSIBLE[role] - {scope})
        without.get("consumers/acme/")
        before = ledger()

        refused = call(without, route, method)

        assert (role, refused.status_code, refused.json()["code"]) == (role, 403, "scope_required")
        assert f"`{scope}`" in refused.json()["detail"]
        assert ledger() == before
        assert call(with_it, route, method).status_code in (200, 201, 202, 400, 404)


@pytest.mark.parametrize(("route", "method"), calls(*ALL), ids=call_name)
def test_s14_no_scope_opens_a_route_to_another_role(route: Route, method: str, acme: Consumer) -> None:
    for role in set(Role) - set(route.roles[method]):
        answer = call(key(role, acme, scopes.POSSIBLE[role]), route, method)
        assert (role, answer.status_code, answer.json()["code"]) == (role, 403, "forbidden")


def test_what_a_role_may_by_default() -> None:
    """DESIGN 12: a producer reads no attempts, receives no rotated secret and replays for nobody."""
    assert scopes.DEFAULT["operator"] == scopes.ALL
    assert scopes.ALL - scopes.DEFAULT["producer"] == {
        "attempts:read", "secrets:rotate", "replays:write", "audit:read", "metrics:read", "signature_profiles:write",
    }  # fmt: skip
    assert scopes.ALL - scopes.DEFAULT["consumer"] == {
        "events:write", "consumers:write", "portal_links:write", "event_types:write", "audit:read", "metrics:read",
        "signature_profiles:write",
    }  # fmt: skip


# ── What a producer does not get, and how it gets it ─────────────────────────────────────────────────────────────────


@pytest.fixture
def dead(acme: Consumer) -> Delivery:
    endpoint = new_endpoint(acme, retry_schedule=[0])
    accept(acme)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 500, X_Internal="secret of the receiver"))
    return Delivery.objects.get()


def producer_with(*names: str) -> Api:
    return Api(keys.issue(role=Role.PRODUCER, scopes=["default", *names])[1])


@pytest.mark.django_db(transaction=True)
def test_s14_a_producer_sees_a_deliverys_state_and_not_what_came_back(producer: Api, dead: Delivery) -> None:
    path = f"deliveries/{dead.public_id}/"

    shown, allowed = producer.get(path), producer_with("attempts:read").get(path)

    assert (shown.json()["state"], "attempts" in shown.json()) == ("dead", False)
    assert "secret of the receiver" not in shown.content.decode()
    assert allowed.json()["attempts"][0]["response_headers"] == [["X-Internal", "secret of the receiver"]]


@pytest.mark.django_db(transaction=True)
def test_s14_a_producer_replays_for_nobody_unless_its_scope_says_so(producer: Api, dead: Delivery) -> None:
    before = ledger()
    calls = [(f"deliveries/{dead.public_id}/replay/", {}), ("replays/", {"state": "dead", "consumer": "acme"})]

    refused = [producer.post(path, body) for path, body in calls]

    assert [answer.json()["code"] for answer in refused] == ["scope_required", "scope_required"]
    assert ledger() == before
    assert producer_with("replays:write").post(*calls[0]).status_code == 202


def test_s14_a_producer_receives_a_first_secret_and_no_rotated_one(producer: Api, acme: Consumer) -> None:
    made = producer.post("consumers/acme/endpoints/", {"url": "http://127.0.0.1:9/hook"}).json()
    assert made["secret"].startswith("whsec_")
    before, path = ledger(), f"endpoints/{made['id']}/rotate-secret/"

    refused = producer.post(path)

    assert (refused.status_code, refused.json()["code"]) == (403, "scope_required")
    assert ledger() == before
    assert producer_with("secrets:rotate").post(path).json()["secret"].startswith("whsec_")


@pytest.mark.django_db(transaction=True)
def test_s14_a_producers_test_and_check_up_say_how_it_went_and_not_what_came_back(
    producer: Api, acme: Consumer, receiver: Receiver
) -> None:
    endpoint, _ = endpoints.create(consumer=acme, url=receiver.url)
    check_up.run(endpoint, transport=answering())
    path = f"endpoints/{endpoint.public_id}"

    test, report = producer.post(f"{path}/test/").json(), producer.get(f"{path}/check-up/").json()

    assert (test["success"], test["status_code"]) == (True, 200)
    assert not {"request_headers", "request_body", "response_headers", "response_body", "error_detail"} & set(test)
    assert report["verdict"] in ("pass", "warn", "fail")
    assert {finding["received"] for finding in report["findings"]} == {None}
    assert producer_with("attempts:read").post(f"{path}/test/").json()["response_body"] == "ok"


def test_a_producer_manages_consumers_endpoints_and_event_types_as_before(producer: Api) -> None:
    url = {"url": "http://127.0.0.1:9/hook"}
    statuses = [
        producer.post("consumers/", {"uid": "acme"}).status_code,
        producer.post("consumers/acme/portal-link/").status_code,
        producer.post("consumers/acme/keys/").status_code,
        producer.post("event-types/", {"name": "invoice.paid"}).status_code,
        (made := producer.post("consumers/acme/endpoints/", url)).status_code,
        producer.patch(f"endpoints/{made.json()['id']}/", {"description": "x"}).status_code,
        producer.post(f"endpoints/{made.json()['id']}/pause/").status_code,
        producer.post("events/", EVENT).status_code,
        producer.get("deliveries/").status_code,
    ]
    assert statuses == [201, 201, 201, 201, 201, 200, 200, 202, 200]


# ── Narrow keys ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_may_only_emit_emits_at_both_doors_and_does_nothing_else(acme: Consumer) -> None:
    api = Api(keys.issue(role=Role.PRODUCER, scopes=["events:write"])[1])

    emitted = [api.post(path, EVENT).status_code for path in ("events/", "events/", "events/?&")]

    assert emitted == [202, 202, 202]
    refused = [api.get("events/"), api.post("consumers/", {"uid": "x"}), api.post("consumers/acme/keys/")]
    assert {answer.json()["code"] for answer in refused} == {"scope_required"}


def test_a_key_without_events_write_emits_at_neither_door_although_it_is_remembered(acme: Consumer) -> None:
    _, secret = keys.issue(role=Role.PRODUCER, scopes=["events:read"])
    api = Api(secret)
    assert api.get("events/").status_code == 200
    remembered = keys.remembered(secret)
    assert remembered is not None
    assert remembered.scopes == {"events:read"}

    answers = [api.post(path, body) for path in ("events/", "events/?&") for body in [EVENT]]
    answers.append(api.post("events/batch/", {"events": [EVENT]}))

    assert [answer.json()["code"] for answer in answers] == ["scope_required"] * 3


def test_the_long_way_asks_for_what_the_short_way_asks_for() -> None:
    views: list[Any] = [events.EventList, events.EventBatch]
    assert {(view.roles["POST"], view.scopes["POST"]) for view in views} == {(PRODUCERS, scopes.EVENTS_WRITE)}


def test_a_read_only_key_of_a_consumer_changes_nothing(acme: Consumer, acme_api: Api) -> None:
    endpoint = new_endpoint(acme)
    names = ["endpoints:read", "events:read", "deliveries:read"]
    reader = Api(acme_api.post("consumers/acme/keys/", {"scopes": names}).json()["key"])

    assert reader.get(f"endpoints/{endpoint.public_id}/").status_code == 200
    assert reader.post(f"endpoints/{endpoint.public_id}/pause/").status_code == 403
    endpoint.refresh_from_db()
    assert endpoint.status == EndpointStatus.ACTIVE


# ── At issue ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("names", "index"),
    [
        (["events:raed"], 0),
        (["events:read", "admin"], 1),
        (["events:write"], 0),
        (["audit:read"], 0),
        (["EVENTS:READ"], 0),
    ],
)
def test_a_scope_that_is_none_or_not_a_consumers_is_refused(
    producer: Api, acme: Consumer, names: list[str], index: int
) -> None:
    answer = producer.post("consumers/acme/keys/", {"scopes": names})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert answer.json()["errors"][0]["pointer"] == f"/scopes/{index}"
    assert ApiKey.objects.filter(consumer=acme).count() == 0


@pytest.mark.parametrize("names", [[], "events:read", [5], [None], {"events:read": True}, ["a"] * 51])
def test_scopes_that_are_no_list_of_names_are_refused(producer: Api, acme: Consumer, names: Any) -> None:
    assert producer.post("consumers/acme/keys/", {"scopes": names}).status_code == 400
    assert ApiKey.objects.filter(consumer=acme).count() == 0


def test_s14_a_narrow_key_makes_narrow_keys_only(acme: Consumer) -> None:
    narrow = Api(keys.issue(role=Role.CONSUMER, consumer=acme, scopes=["keys:write", "events:read"])[1])

    inherited = narrow.post("consumers/acme/keys/", {})
    wider = narrow.post("consumers/acme/keys/", {"scopes": ["events:read", "attempts:read"]})

    assert inherited.json()["scopes"] == ["events:read", "keys:write"]
    assert (wider.status_code, wider.json()["code"]) == (403, "forbidden")
    assert "attempts:read" in wider.json()["detail"]


def test_a_producer_gives_a_consumer_all_that_is_the_consumers(producer: Api, acme: Consumer) -> None:
    """Reading its own attempts is the consumer's right, and not the producer's to have first."""
    shown = producer.post("consumers/acme/keys/", {}).json()
    assert set(shown["scopes"]) == scopes.DEFAULT["consumer"]
