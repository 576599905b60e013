"""A rotation while an overlap runs would silence a secret that a receiver may hold: refused, unless it is forced."""

import re

import pytest
from django.test import Client

from subscriptions import endpoints
from subscriptions.models import AuditEntry, Consumer, Endpoint
from tests.conftest import Api
from tests.console import logged_in
from tests.ledger import ledger
from tests.portal import inside
from tests.threads import at_the_same_moment
from tests.walk import new_endpoint, pass_time

pytestmark = pytest.mark.django_db(transaction=True)


def rotate(api: Api, endpoint: Endpoint, key: str | None = None, **body: object) -> tuple[int, str]:
    headers = {"Idempotency-Key": key} if key else None
    answer = api.post(f"endpoints/{endpoint.public_id}/rotate-secret/", body, headers=headers)
    return answer.status_code, answer.json().get("secret") or answer.json()["code"]


@pytest.mark.parametrize("second", [{}, {"overlap_seconds": 60}, {"overlap_seconds": 0}, {"force": False}])
def test_w06_a_second_rotation_is_refused_and_nothing_is_written(
    acme_api: Api, acme: Consumer, second: dict[str, object]
) -> None:
    endpoint = new_endpoint(acme)
    assert rotate(acme_api, endpoint, overlap_seconds=3600)[0] == 200
    before = ledger()
    answer = acme_api.post(f"endpoints/{endpoint.public_id}/rotate-secret/", second)
    assert (answer.status_code, answer.json()["code"]) == (409, "rotation_in_progress")
    until = Endpoint.objects.get().previous_secret_expires_at
    assert until is not None
    assert f"{until:%Y-%m-%d %H:%M:%S} UTC" in answer.json()["detail"]
    assert '"force": true' in answer.json()["detail"]
    assert ledger() == before


def test_w06_force_rotates_and_what_is_no_flag_is_refused(acme_api: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    secrets = [rotate(acme_api, endpoint, force=force) for force in (False, True, True)]
    assert ([status for status, _ in secrets], len({secret for _, secret in secrets})) == ([200, 200, 200], 3)
    assert rotate(acme_api, endpoint, force="yes") == (400, "invalid")


def test_w06_a_first_rotation_without_overlap_and_the_next_need_no_force(acme_api: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    assert [rotate(acme_api, endpoint, overlap_seconds=0)[0] for _ in range(2)] == [200, 200]


def test_w06_an_overlap_that_has_ended_is_no_rotation_in_progress(acme_api: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    rotate(acme_api, endpoint, overlap_seconds=3600)
    pass_time(seconds=3601)
    assert rotate(acme_api, endpoint)[0] == 200


def test_w06_of_several_rotations_at_the_same_moment_one_wins(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)

    def one() -> str:
        try:
            return endpoints.rotate_secret(endpoint, overlap_seconds=60).secret
        except endpoints.RotationInProgress:
            return "refused"

    answers = at_the_same_moment(8, one)
    assert answers.count("refused") == 7


def test_a_repeated_request_gets_its_stored_answer_during_the_overlap(acme_api: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    first, again = (rotate(acme_api, endpoint, key="rotation-1") for _ in range(2))
    assert first == again
    assert rotate(acme_api, endpoint, key="rotation-2") == (409, "rotation_in_progress")
    assert rotate(acme_api, endpoint, key="rotation-2", force=True)[0] == 200


@pytest.fixture(params=["portal", "console"])
def rotating(request: pytest.FixtureRequest, acme: Consumer) -> tuple[Client, str, str]:
    """Somebody who may rotate, the page of an endpoint, and where its form goes."""
    endpoint = new_endpoint(acme)
    if request.param == "portal":
        page = f"/portal/endpoints/{endpoint.public_id}/"
        return inside(acme), page, f"{page}rotate-secret/"
    page = f"/admin/endpoints/{endpoint.public_id}/"
    return logged_in("olga", group="Operators"), page, f"{page}rotate/"


def test_a_page_refuses_a_second_rotation_says_until_when_and_offers_force(rotating: tuple[Client, str, str]) -> None:
    client, page, path = rotating
    assert b'name="force"' not in client.get(page).content
    client.post(path, {"overlap_seconds": "3600", "why": "planned"})
    sealed = bytes(Endpoint.objects.get().secret_encrypted)

    shown = client.post(path, {"overlap_seconds": "3600", "why": "again"}, follow=True).content.decode()

    until = Endpoint.objects.get().previous_secret_expires_at
    assert until is not None
    assert f"{until:%Y-%m-%d %H:%M:%S}" in shown
    assert "Nothing was changed" in shown
    assert "refuses every request from that moment" in shown
    assert shown.count('name="force"') == 1
    assert bytes(Endpoint.objects.get().secret_encrypted) == sealed
    assert AuditEntry.objects.filter(action="endpoint.secret_rotated").count() == 1

    forced = client.post(path, {"overlap_seconds": "3600", "why": "sure", "force": "yes"}, follow=True)
    # The new one, once; the receivers' code beside it has a place for it and no secret.
    assert len(re.findall(rb"whsec_[A-Za-z0-9+/]{43}=", forced.content)) == 1
    assert bytes(Endpoint.objects.get().secret_encrypted) != sealed
