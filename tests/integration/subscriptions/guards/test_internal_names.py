"""S06: whoever registers, tests or receives cannot find out which names exist in the network behind us."""

import socket
from typing import Any

import pytest
from pytest_django import Settings

from deliveries.models import Attempt, Delivery
from deliveries.send import Unanswered, send
from subscriptions.guards.urls import Policy
from subscriptions.models import Consumer, Endpoint
from tests.conftest import Api, PumpRunner
from tests.integration.deliveries.pump.raw_receiver import (
    CLOSED,
    OK,
    PUBLIC,
    answers_with,
    kind,
    outgoing,
    receiving,
    transport,
)
from tests.walk import accept, new_endpoint

INTERNAL = ["redis", "redis.default.svc", "db.internal", "a.svc.cluster.local", "LOCALHOST", "x.consul", "a.home.arpa"]
SENTENCE = "The host name of the URL does not lead to an address that we deliver to."


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that the system's resolver is asked for. Those with `private` in them have an address, the others none."""
    names: list[str] = []

    def getaddrinfo(host: str, port: int, *_: object, **__: object) -> list[Any]:
        names.append(host)
        if "private" not in host:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


@pytest.fixture
def closed(settings: Settings) -> None:
    settings.DELIVERY_ALLOWED_NETWORKS = []


@pytest.mark.django_db
@pytest.mark.usefixtures("closed")
def test_registration_takes_a_name_whatever_it_resolves_to_and_asks_nobody(
    acme: Consumer, acme_api: Api, asked: list[str]
) -> None:
    endpoint = new_endpoint(acme)
    hosts = ["private.example.com", "nowhere.example.com"]

    created = [acme_api.post("consumers/acme/endpoints/", {"url": f"https://{host}/"}).status_code for host in hosts]
    changed = [
        acme_api.patch(f"endpoints/{endpoint.public_id}/", {"url": f"https://{host}/"}).status_code for host in hosts
    ]

    assert (created, changed, asked) == ([201, 201], [200, 200], [])


@pytest.mark.django_db
@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("host", INTERNAL)
def test_names_of_this_network_are_refused_by_their_spelling(
    acme: Consumer, acme_api: Api, asked: list[str], host: str
) -> None:
    answer = acme_api.post("consumers/acme/endpoints/", {"url": f"https://{host}/"})

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/url")
    assert asked == []
    assert not Endpoint.objects.exists()


@pytest.mark.django_db
def test_with_networks_opened_plain_http_is_for_names_inside_them_and_refused_alike_for_others(
    acme: Consumer, acme_api: Api, asked: list[str], settings: Settings
) -> None:
    settings.DELIVERY_ALLOWED_NETWORKS = ["10.0.0.0/24"]
    inside = acme_api.post("consumers/acme/endpoints/", {"url": "http://private.example.com:5001/"})
    settings.DELIVERY_ALLOWED_NETWORKS = ["10.9.0.0/24"]
    others = [
        acme_api.post("consumers/acme/endpoints/", {"url": f"http://{host}.example.com/"}).json()["errors"]
        for host in ("private", "nowhere")
    ]

    assert inside.status_code == 201
    assert others[0] == others[1]
    assert asked == ["private.example.com.", "private.example.com.", "nowhere.example.com."]


@pytest.mark.django_db(transaction=True)
def test_tests_deliveries_and_attempts_do_not_tell_a_refused_name_from_one_that_does_not_exist(
    acme: Consumer, acme_api: Api, asked: list[str], pump: PumpRunner, settings: Settings
) -> None:
    told = []
    settings.DELIVERY_ALLOWED_NETWORKS = []
    for host in ("private", "nowhere"):
        endpoint = new_endpoint(acme, url=f"https://{host}.example.com/")
        tested = acme_api.post(f"endpoints/{endpoint.public_id}/test/").json()
        checked = acme_api.post(f"endpoints/{endpoint.public_id}/check-up/").json()
        accept(acme)
        pump.run()
        delivery = Delivery.objects.get(endpoint=endpoint)
        attempt = Attempt.objects.get(delivery=delivery)
        told.append(
            [
                *(tested["error_kind"], tested["error_detail"]),
                *[(finding["name"], finding["verdict"]) for finding in checked["findings"]],
                *(delivery.state, delivery.dead_reason, attempt.error_kind, attempt.error_detail, attempt.address),
            ]
        )
        Endpoint.objects.filter(id=endpoint.id).update(status="paused")

    assert told[0] == told[1]
    assert told[0][:2] == ["dns", SENTENCE]


@pytest.mark.asyncio
async def test_the_dial_tells_both_alike_and_after_the_same_least_time() -> None:
    async def nothing(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for lookup in (nothing, answers_with(), answers_with("10.0.0.1"), answers_with(PUBLIC, "169.254.169.254")):
        async with transport(CLOSED, lookup=lookup) as carrier:
            sent = await send(outgoing("http://hooks.example/"), transport=carrier)
        assert isinstance(sent, Unanswered)
        assert (sent.error_kind, sent.detail, sent.address) == ("dns", SENTENCE, None)
        assert sent.duration_ms >= 490


@pytest.mark.asyncio
async def test_names_are_looked_up_without_the_resolvers_search_list(asked: list[str]) -> None:
    async with transport(CLOSED) as carrier:
        await send(outgoing("http://redis.default/"), transport=carrier)

    assert asked == ["redis.default."]


@pytest.mark.asyncio
@pytest.mark.parametrize("host", INTERNAL)
async def test_an_egress_proxy_is_not_asked_for_names_that_registration_refuses(host: str) -> None:
    async with receiving(OK) as proxy:
        async with transport(Policy(allow_http=True), proxy_url=f"http://127.0.0.1:{proxy.port}") as carrier:
            assert kind(await send(outgoing(f"http://{host}/"), transport=carrier)) == "refused_address"
        assert proxy.requests == []
