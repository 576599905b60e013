"""deliveries/api/answer_before_django.py: the same answers as through Django, and any middleware that is added."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import orjson
import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test.utils import CaptureQueriesContext

from deliveries.models import Delivery, Event
from subscriptions import keys
from subscriptions.api.problems import permission_denied
from subscriptions.models import ApiKey, Consumer, Role
from tests.conftest import Api
from tests.emitting import BATCH, EVENT, THROUGH_DJANGO

pytestmark = pytest.mark.django_db(transaction=True)


class Stamps:
    """A middleware that somebody adds: it sets a header, and refuses who asks for it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "X-Refuse-Me" in request.headers:
            return permission_denied(request, PermissionDenied())
        response = self.get_response(request)
        response["X-Stamp"] = "seen"
        return response


@pytest.fixture
def stamped(known: tuple[Api, ApiKey], settings: Any) -> Api:
    """A web server that was started with one more middleware, and a caller it has seen before."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.Stamps"]
    secret = keys.issue(role=Role.PRODUCER)[1]
    api = Api(secret)
    assert api.post("events/", EVENT).status_code == 202
    assert keys.remembered(secret) is not None
    return api


@pytest.mark.parametrize(("path", "body", "count"), [("events/", EVENT, 1), ("events/batch/", BATCH, 2)])
def test_a_middleware_that_is_added_sees_every_emit_and_its_answer(
    path: str, body: dict[str, Any], count: int, stamped: Api
) -> None:
    answer = stamped.post(path, body)
    assert (answer.status_code, answer["X-Stamp"], Event.objects.count()) == (202, "seen", 4 + count)


@pytest.mark.parametrize(("path", "body"), [("events/", EVENT), ("events/batch/", BATCH)])
def test_a_middleware_that_is_added_may_refuse_an_emit_and_nothing_is_stored(
    path: str, body: dict[str, Any], stamped: Api
) -> None:
    refused = stamped.post(path, body, headers={"X-Refuse-Me": "1"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert Event.objects.count() == 4


def test_a_web_server_whose_emits_all_go_through_django_says_which_middleware_it_is_for(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Api("nobody")
    assert [record for record in caplog.records if record.msg == "emits.through_django"] == []
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.Stamps"]
    Api("nobody")
    [said] = [record for record in caplog.records if record.msg == "emits.through_django"]
    assert vars(said)["fields"] == {"middleware": [f"{__name__}.Stamps"]}


def test_an_emit_is_answered_and_stored_the_same_before_and_through_django(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    event = {**EVENT, "occurred_at": "2026-01-31T12:00:00+02:00", "api_version": "7", "data": {"é": [1.5, "\u2028"]}}
    before = api.post("events/", event)
    through = api.post(f"events/{THROUGH_DJANGO}", event)
    own = {"id", "created_at"}
    assert {name: value for name, value in before.json().items() if name not in own} == {
        name: value for name, value in through.json().items() if name not in own
    }
    assert before.json()["occurred_at"] == "2026-01-31T10:00:00.000000Z"
    assert api.get(f"events/{before.json()['id']}/").json() == before.json()
    bodies = [bytes(row.body or b"") for row in Event.objects.order_by("id")[3:]]
    assert bodies[0].split(b'"data"')[1] == bodies[1].split(b'"data"')[1]


def test_a_consumer_s_key_emits_nothing_however_often_it_has_called(acme_api: Api, acme: Consumer) -> None:
    for _ in range(2):
        assert acme_api.get("consumers/acme/").status_code == 200
        assert acme_api.post("events/", EVENT).status_code == 403
    assert Event.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"consumer": "nobody"}, 404, "consumer_not_found"),
        ({"type": "Ünknown"}, 400, "invalid"),
        ({"data": []}, 400, "invalid"),
    ],
    ids=["consumer", "type", "shape"],
)
def test_what_is_refused_is_refused_as_through_django_and_writes_nothing(
    change: dict[str, Any], status: int, code: str, known: tuple[Api, ApiKey]
) -> None:
    assert_refused(known[0], {**EVENT, **change}, status, code)


def assert_refused(api: Api, event: dict[str, Any], status: int, code: str) -> None:
    before = api.post("events/", event)
    through = api.post(f"events/{THROUGH_DJANGO}", event)
    assert (before.status_code, before.json()["code"]) == (status, code)
    assert before.json() == through.json()
    assert Event.objects.count() == 3


def test_an_emit_that_goes_on_to_django_counts_once(acme: Consumer, settings: Any) -> None:
    settings.API_RATE_PER_SECOND, settings.API_RATE_BURST = 1, 3
    api = Api(keys.issue(role=Role.PRODUCER)[1])
    # The first makes the key known; each of the others begins before Django.
    answers = [api.post("events/", {**EVENT, "consumer": "nobody"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [404, 404, 404]


def test_a_length_that_is_no_number_is_refused(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    assert api.post("events/", EVENT, headers={"Content-Length": "many"}).status_code == 400
    assert Event.objects.count() == 3


@pytest.mark.parametrize(("more", "status"), [(0, 202), (1, 400)], ids=["whole", "cut short"])
def test_a_body_that_is_cut_short_is_refused_although_it_makes_sense(
    more: int, status: int, known: tuple[Api, ApiKey]
) -> None:
    api, _ = known
    body = orjson.dumps(EVENT)
    environ: dict[str, Any] = {"wsgi.input": BytesIO(body), "CONTENT_TYPE": "application/json"}
    length = str(len(body) + more)
    answer = api._client.generic("POST", "/api/v1/events/", headers=api._headers, CONTENT_LENGTH=length, **environ)
    assert (answer.status_code, Event.objects.count()) == (status, 3 + (status == 202))


def test_a_batch_like_the_one_before_takes_one_transaction_and_answers_as_through_django(
    known: tuple[Api, ApiKey],
) -> None:
    api, _ = known
    with CaptureQueriesContext(connection) as captured:
        before = api.post("events/batch/", BATCH)
    # Begin, the events, commit.
    assert (before.status_code, len(captured), Event.objects.count(), Delivery.objects.count()) == (202, 3, 5, 5)
    through = api.post(f"events/batch/{THROUGH_DJANGO}", BATCH)
    assert [without_own(one) for one in before.json()["results"]] == [
        without_own(one) for one in through.json()["results"]
    ]
    for one in before.json()["results"]:
        assert one["status"] == "accepted"
        assert api.get(f"events/{one['event']['id']}/").json() == one["event"]


def without_own(result: dict[str, Any]) -> dict[str, Any]:
    event = {name: value for name, value in result["event"].items() if name not in ("id", "created_at")}
    return {**result, "event": event}


@pytest.mark.parametrize("path", ["events/", "events/batch/"])
def test_an_emit_with_a_key_is_answered_once(path: str, known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    body, count = (EVENT, 1) if path == "events/" else (BATCH, 2)
    with CaptureQueriesContext(connection) as captured:
        first = api.post(path, body, headers={"Idempotency-Key": "k"})
    # Is the key known, begin, the events, the answer, commit.
    assert (first.status_code, len(captured), "Allow" in first) == (202, 5, False)
    again = api.post(path, body, headers={"Idempotency-Key": '"k"'})
    later = api.post(f"{path.rstrip('/')}", body, headers={"Idempotency-Key": "k"})
    assert [again.content, later.content] == [first.content, first.content]
    assert [one.headers.get("Idempotent-Replayed") for one in (first, again, later)] == [None, "true", "true"]
    others = {**EVENT, "api_version": "2"} if path == "events/" else {"events": [EVENT]}
    other = api.post(path, others, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert Event.objects.count() == 3 + count


@pytest.mark.parametrize(
    ("first", "second"),
    [("", THROUGH_DJANGO), (THROUGH_DJANGO, "")],
    ids=["before Django first", "through Django first"],
)
@pytest.mark.parametrize("path", ["events/", "events/batch/"])
def test_a_key_is_the_same_key_before_and_through_django(
    path: str, first: str, second: str, known: tuple[Api, ApiKey]
) -> None:
    api, _ = known
    event: dict[str, Any] = {**EVENT, "data": {"é": [1.0, 1e22, "\u2028"]}}
    body = event if path == "events/" else {"events": [event, {**EVENT, "id": "own"}]}
    answers = [api.post(f"{path}{way}", body, headers={"Idempotency-Key": "k"}) for way in (first, second)]
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None, "true"]
    assert answers[0].content == answers[1].content
    more = {**event, "api_version": "2"}
    others = more if path == "events/" else {"events": [more]}
    other = api.post(f"{path}{second}", others, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")


def test_a_refused_emit_leaves_its_key_free(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    refused = api.post("events/", {**EVENT, "consumer": "nobody"}, headers={"Idempotency-Key": "k"})
    accepted = api.post("events/", EVENT, headers={"Idempotency-Key": "k"})
    assert [refused.status_code, accepted.status_code] == [404, 202]
    assert Event.objects.count() == 4


@pytest.mark.parametrize("key", ["", " ", '""', "k" * 256, "kéy"])
def test_a_key_that_is_none_is_refused_before_django_too(key: str, known: tuple[Api, ApiKey]) -> None:
    answer = known[0].post("events/", EVENT, headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_invalid")
    assert Event.objects.count() == 3


def test_an_emit_has_the_same_headers_before_and_through_django(known: tuple[Api, ApiKey]) -> None:
    api, _ = known
    before = api.post("events/", EVENT)
    through = api.post(f"events/{THROUGH_DJANGO}", EVENT)
    # The first two are counted on; the third is Django REST framework's own.
    others = {"RateLimit-Remaining", "RateLimit-Reset", "Allow"}
    assert {name: value for name, value in before.items() if name not in others} == {
        name: value for name, value in through.items() if name not in others
    }
    assert {"X-Content-Type-Options", "Referrer-Policy", "RateLimit-Limit"} <= set(before.headers)


@pytest.mark.parametrize("path", ["events/", "events/batch/"])
def test_a_host_that_is_not_allowed_is_refused_before_django_too(path: str, known: tuple[Api, ApiKey]) -> None:
    answer = known[0].post(path, EVENT, headers={"Host": "elsewhere.example"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert Event.objects.count() == 3


@pytest.mark.parametrize(("path", "body"), [("events/", EVENT), ("events/batch/", BATCH)])
def test_parameters_are_judged_as_through_django(path: str, body: dict[str, Any], known: tuple[Api, ApiKey]) -> None:
    answer = known[0].post(f"{path}?at=%00", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")
    assert Event.objects.count() == 3


def test_an_error_before_anything_is_stored_is_answered_as_any_other(known: tuple[Api, ApiKey], settings: Any) -> None:
    api, _ = known
    api._client.raise_request_exception = False
    settings.API_RATE_PER_SECOND = "many"
    answer = api.post("events/", EVENT)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert Event.objects.count() == 3
