"""B: whatever is sent to whichever route, a refusal is a problem document with a stable code, and nothing is written.

The routes come from the URL map (tests/routes.py): a new one fails here until somebody says what it must refuse.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from itertools import product
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.serializers import BaseSerializer

from deliveries import replay
from deliveries.api.endpoints import EndpointIn, NewEndpointIn, RotateIn
from deliveries.api.replays import ReplayIn
from deliveries.endpoint_tests import check_up
from deliveries.ingest import NewEvent
from deliveries.models import Event
from subscriptions import consumers, endpoints, event_types, keys
from subscriptions.api.consumers import ConsumerIn
from subscriptions.api.event_types import EventTypeIn, NewEventTypeIn
from subscriptions.api.keys import KeyIn, KeyRotateIn
from subscriptions.api.signature_profiles import NewProfileIn, ProfileIn
from subscriptions.models import Consumer, Role
from subscriptions.signing import schemes
from tests.conftest import Api
from tests.ledger import ledger
from tests.routes import SEND_AT_ONCE, Route, api_routes, call_name, calls
from tests.walk import answering

pytestmark = pytest.mark.django_db

JSON = "application/json"
TEN_MB = 10 * 1024 * 1024


class Raw:
    """A caller that sends exactly these bytes, and sees a 500 instead of our traceback."""

    def __init__(self, key: str | None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = Client(raise_request_exception=False, headers=headers)

    def send(self, method: str, path: str, body: bytes = b"{}", content_type: str = JSON, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.generic(method, f"/api/v1/{path}", body, content_type=content_type, headers=named)


@pytest.fixture
def operator(db: None) -> Raw:
    """May do everything, so that a refusal is about the input."""
    raw = Raw(keys.issue(role=Role.OPERATOR)[1])
    raw.send("GET", "events/")
    return raw


@pytest.fixture
def things(acme: Consumer) -> dict[str, str]:
    """One of each, to put into paths."""
    endpoint, _ = endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    event_types.create(name="invoice.paid")
    schemes.create(name="own-way", signed="{body}")
    api = Api(keys.issue(role=Role.PRODUCER)[1])
    event = api.post("events/", {"consumer": "acme", "type": "invoice.paid", "data": {}})
    job = replay.start(replay.Filter(), consumer=acme, rate_per_second=None, requested_by="acme")
    check_up.run(endpoint, transport=answering())
    return {
        "consumer": "acme",
        "endpoint": endpoint.public_id,
        "name": "invoice.paid",
        "profile": "own-way",
        "event": event.json()["id"],
        "delivery": Event.objects.get().deliveries.get().public_id,
        "key": keys.issue(role=Role.CONSUMER, consumer=acme)[0].public_id,
        "replay": job.public_id,
    }


def surprise(answer: Any, status: int, code: str, pointer: str | None = None) -> str | None:
    """None for the expected refusal, else what came instead."""
    if answer.status_code != status or answer["Content-Type"] != "application/problem+json":
        return f"{answer.status_code} {answer['Content-Type']}: {answer.content[:300]!r}"
    document = answer.json()
    if (document["status"], document["code"]) != (status, code):
        return f"{document['status']} {document['code']}: {document['detail']}"
    pointers = [error["pointer"] for error in document.get("errors", [])]
    if pointer is not None and not any(found == pointer or found.startswith(f"{pointer}/") for found in pointers):
        return f"points at {pointers} instead of {pointer!r}"
    return None


# ── Bodies that are no JSON of ours, sent to every route that takes one ──────────────────────────────────────────────


def body_of(inner: str) -> bytes:
    return f'{{"metadata": {inner}}}'.encode()


BAD_BODIES: dict[str, tuple[bytes, str, int, str]] = {
    "truncated": (b'{"name": "acm', JSON, 400, "invalid_json"),
    "two values": (b"{} {}", JSON, 400, "invalid_json"),
    "not JSON at all": (b"name=acme", JSON, 400, "invalid_json"),
    "a byte order mark": (b"\xef\xbb\xbf{}", JSON, 400, "invalid_json"),
    "white space only": (b"  ", JSON, 400, "invalid_json"),
    "latin-1 bytes": ('{"name": "Grüße"}'.encode("latin-1"), JSON, 400, "invalid_json"),
    "utf-16 bytes": ('{"name": "x"}'.encode("utf-16"), JSON, 400, "invalid_json"),
    "a key twice": (b'{"name": "a", "name": "a"}', JSON, 400, "invalid_json"),
    "a key twice, deep inside": (body_of('[{"a": 1, "\\u0061": 2}]'), JSON, 400, "invalid_json"),
    "NaN": (body_of("NaN"), JSON, 400, "invalid_json"),
    "Infinity": (body_of("Infinity"), JSON, 400, "invalid_json"),
    "-Infinity": (body_of("-Infinity"), JSON, 400, "invalid_json"),
    "2^64": (body_of(str(2**64)), JSON, 400, "invalid_json"),
    "-2^63 - 1": (body_of(str(-(2**63) - 1)), JSON, 400, "invalid_json"),
    "ten thousand digits": (body_of("9" * 10_000), JSON, 400, "invalid_json"),
    "a float beyond a double": (body_of("1e400"), JSON, 400, "invalid_json"),
    "NUL in a string": (body_of('"a\\u0000"'), JSON, 400, "invalid_json"),
    "NUL in a key": (body_of('{"a\\u0000": 1}'), JSON, 400, "invalid_json"),
    "NUL, deep inside": (body_of("[" * 240 + '"\\u0000"' + "]" * 240), JSON, 400, "invalid_json"),
    "a raw NUL": (b'{"name": "a\0"}', JSON, 400, "invalid_json"),
    "a lone surrogate": (body_of('"\\ud800"'), JSON, 400, "invalid_json"),
    "a lone surrogate in a key": (body_of('{"\\udc00": 1}'), JSON, 400, "invalid_json"),
    "a surrogate in UTF-8": (b'{"name": "\xed\xa0\x80"}', JSON, 400, "invalid_json"),
    "250 levels": (body_of("[" * 250 + "]" * 250), JSON, 400, "invalid_json"),
    "100,000 levels": (body_of("[" * 100_000 + "]" * 100_000), JSON, 400, "invalid_json"),
    "100,000 objects": (body_of('{"a":' * 40_000 + "1" + "}" * 40_000), JSON, 400, "invalid_json"),
    "a list": (b"[]", JSON, 400, "invalid"),
    "a string": (b'"acme"', JSON, 400, "invalid"),
    "a number": (b"5", JSON, 400, "invalid"),
    "null": (b"null", JSON, 400, "invalid"),
    "10 MB": (b'{"name": "' + b"x" * TEN_MB + b'"}', JSON, 413, "payload_too_large"),
    "text": (b"{}", "text/plain", 415, "unsupported_media_type"),
    "a form": (b"name=acme", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    "a multipart form": (b"--x--", "multipart/form-data; boundary=x", 415, "unsupported_media_type"),
    "no content type": (b"{}", "", 415, "unsupported_media_type"),
    "nearly JSON": (b"{}", "application/json5", 415, "unsupported_media_type"),
    "another charset": ('{"name": "x"}'.encode("utf-16"), f"{JSON}; charset=utf-16", 415, "unsupported_charset"),
    "an unknown charset": (b"{}", f'{JSON}; charset="klingon"', 415, "unsupported_charset"),
}


@pytest.mark.parametrize(("route", "method"), calls("POST", "PATCH"), ids=call_name)
def test_b_a_body_that_is_no_json_object_is_refused(
    route: Route, method: str, operator: Raw, things: dict[str, str]
) -> None:
    before = ledger()

    surprises = {}
    for name, (body, content_type, status, code) in BAD_BODIES.items():
        answer = operator.send(method, route.path(things), body, content_type)
        if found := surprise(answer, status, code):
            surprises[name] = found

    assert surprises == {}
    assert ledger() == before


@pytest.mark.parametrize(
    ("route", "method"), [call for call in calls("POST") if call[0].name not in SEND_AT_ONCE], ids=call_name
)
def test_b_an_idempotency_key_that_is_none_is_refused(
    route: Route, method: str, operator: Raw, things: dict[str, str]
) -> None:
    before = ledger()
    body = json.dumps(route.good_body(method)).encode()

    surprises = {}
    for key in ("", " ", '""', "k" * 256, "Schlüssel", "a\tb", "a\x7f"):
        answer = operator.send(method, route.path(things), body, Idempotency_Key=key)
        if found := surprise(answer, 400, "idempotency_key_invalid"):
            surprises[key] = found

    assert surprises == {}
    assert ledger() == before


# ── Every field of every route ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Field:
    """Values that the field refuses; `required` when a body without it is refused too."""

    refuses: tuple[Any, ...]
    required: bool = False


def text(*more: Any, longest: int, blank: bool = True, nullable: bool = False, required: bool = False) -> Field:
    empty = () if blank else ("",)
    null = () if nullable else (None,)
    return Field((5, 1.5, True, [], ["x"], {}, "x" * (longest + 1), *empty, *null, *more), required)


def whole(low: int, high: int, *, nullable: bool = False) -> Field:
    null = () if nullable else (None,)
    return Field(("5", "", 1.5, 5.0, True, [], {}, low - 1, high + 1, 2**63, -(2**63), *null))


def flag() -> Field:
    return Field((None, 0, 1, "true", "yes", "", [], {}))


def choice() -> Field:
    return Field((None, 5, True, "", "nonsense", [], {}))


def time(*, nullable: bool = False) -> Field:
    null = () if nullable else (None,)
    nonsense = ("", "yesterday", "2999-13-01T00:00:00Z", "2999-02-30T00:00:00Z", "2999-01-01T00:00:00+99:99")
    return Field((5, 1.5, True, [], {}, "9999-12-31T23:59:59-12:00", "9" * 5000, *nonsense, *null))


METADATA = Field(
    (
        *(None, 5, "x", True, [], ["x"]),
        *({"a": None}, {"a": 5}, {"a": []}, {"a": {}}, {"a": "x" * 501}, {"a" * 65: "x"}),
        {f"a{number}": "x" for number in range(51)},
    )
)
WHY = text(longest=500)
CONSUMER = {
    "uid": text("con_mine", "a b", "a/b", "-a", "ä", "a\n", " a", longest=255, blank=False, nullable=True),
    "name": text(longest=255),
    "contact_email": text("nobody", "a@", "a@b", longest=254),
    "metadata": METADATA,
    "why": WHY,
}
HEADERS = Field(
    (
        *(None, 5, "x", True, []),
        *({"X-A": None}, {"X-A": 5}, {"X-A": ""}, {"X-A": "a\r\nX-B: b"}, {"X-A": "ü"}, {"X-A": "a" * 1025}),
        *({"": "a"}, {"Host": "a"}, {"X A": "a"}, {"X:": "a"}, {"webhook-id": "a"}, {"a" * 65: "a"}),
        {"X-A": "a", "x-a": "b"},
        {f"X-{number}": "a" for number in range(21)},
    )
)
BAD_URLS = (
    "example", "ftp://127.0.0.1/", "http://", "http://10.0.0.1/", "http://169.254.169.254/", "http://127.0.0.1:9/#a",
    "http://a:b@127.0.0.1/", "http://127.0.0.1:0/", "http://127.0.0.1:9/ ", "http://127.1/", "http://[::1", "http://ü/",
    "http://127.0.0.1:9/\nX", "javascript:alert(1)",
)  # fmt: skip
ENDPOINT = {
    "url": text(*BAD_URLS, longest=2048, blank=False, required=True),
    "event_types": Field(
        (
            *(None, 5, "invoice.paid", True, {}, [], [5], [None], [""], [["a"]]),
            *(["a..b"], ["*.a"], ["a.*.b"], ["a b"], ["a\n"], ["a" * 256]),
            [f"a.b{number}" for number in range(101)],
        )
    ),
    "description": text(longest=2000),
    "metadata": METADATA,
    "headers": HEADERS,
    "signature_scheme": choice(),
    "payload_mode": choice(),
    "ordered": flag(),
    "max_in_flight": whole(1, 1000),
    "rate_limit_per_second": whole(1, 10_000, nullable=True),
    "timeout_seconds": whole(1, 30),
    "retry_schedule": Field((5, "x", True, {}, [], [None], ["5"], [1.5], [-1], [True], [604_801], [0] * 21)),
    "why": WHY,
}
# A secret that the caller brings. Signed with the scheme that an endpoint gets unless it names one.
SECRET = text("x" * 15, "ü" * 20, "has\nlines" * 3, longest=256, blank=False, nullable=True)
_HEADER = text("no spaces", "Host", "webhook-test", "a\r\nb: c", longest=64, nullable=True)
PROFILE = {
    "name": text("a b", "Caps", "github/", longest=64, blank=False, required=True),
    "description": text(longest=2000),
    "signed": text("{timestamp}", "{body}{nonsense}", "{body", "a\n{body}", longest=200, blank=False, required=True),
    "signature_header": text("no spaces", "Host", longest=64, blank=False),
    **dict.fromkeys(("id_header", "timestamp_header", "attempt_header", "type_header", "second_header"), _HEADER),
    "hash": choice(),
    "encoding": choice(),
    "key": choice(),
    "lead": text("{body}", "\n", longest=32),
    "prefix": text("{timestamp}", "\n", longest=32),
    "separator": text("", "{id}", longest=32),
    "why": WHY,
}
BAD_NAMES = ("a b", "a..b", ".a", "a.", "ä", "a.*", "*", "a\n")
BAD_VERSION_NAMES: list[Any] = [None, 5, True, "", "a b", "a" * 65, "1\n", [], {}]
BAD_SCHEMAS: list[Any] = [5, "x", True, [], {"type": "x"}, {"pattern": "("}, {"minimum": ""}, {"$ref": "#/nowhere"}]
# A schema must not make us fetch anything.
BAD_SCHEMAS += [{"$ref": "http://127.0.0.1:9/schema"}, {"$schema": "http://127.0.0.1:9/schema"}]
BAD_VERSIONS: list[Any] = [
    *({"api_version": name} for name in BAD_VERSION_NAMES),
    *({"api_version": "1", "schema": schema} for schema in BAD_SCHEMAS),
    {"api_version": "1", "schema": {"type": "object"}, "example": 5},
    *(5, None, [], {}),
]
NEW_EVENT_TYPE = {
    "name": text(*BAD_NAMES, longest=255, blank=False, required=True),
    "description": text(longest=10_000),
    "versions": Field(
        (
            *(None, 5, "x", True, {}),
            *([version] for version in BAD_VERSIONS),
            [{"api_version": "1"}, {"api_version": "1"}],
            [{"api_version": f"{number}"} for number in range(51)],
        )
    ),
    "why": WHY,
}
EVENT = {
    "consumer": text(longest=255, blank=False, required=True),
    "type": text(*BAD_NAMES, longest=255, blank=False, required=True),
    "data": Field((None, 5, "x", True, [], [{}]), required=True),
    "id": text("a.b", "a b", "a/b", "ä", "a\n", longest=255, blank=False),
    "api_version": text("a b", "ä", "1\n", longest=64, blank=False),
    "occurred_at": time(),
    "ordering_key": text(longest=255, blank=False),
}
FIELDS: dict[tuple[str, str], dict[str, Field]] = {
    ("consumers", "POST"): CONSUMER,
    ("consumer", "PATCH"): CONSUMER,
    ("keys", "POST"): {
        "name": text(longest=255),
        "expires_at": Field((*time(nullable=True).refuses, "2001-01-01T00:00:00Z")),
        "scopes": Field((5, "events:read", True, {}, [], [None], [5], ["x" * 65], ["events:raed"], ["events:write"])),
        "why": WHY,
    },
    ("portal-link", "POST"): {"why": WHY},
    ("endpoints", "POST"): {**ENDPOINT, "secret": SECRET},
    ("endpoint", "PATCH"): ENDPOINT,
    ("key-rotate", "POST"): {"overlap_seconds": whole(0, 604_800), "why": WHY},
    ("rotate-secret", "POST"): {
        "overlap_seconds": whole(0, 604_800),
        "force": flag(),
        "secret": SECRET,
        "why": WHY,
    },
    ("pause", "POST"): {"why": WHY},
    ("resume", "POST"): {"why": WHY},
    ("test", "POST"): {
        "type": text(longest=255, blank=False),
        "data": Field((None, 5, "x", True, [])),
        "why": WHY,
    },
    ("check-up", "POST"): {"why": WHY},
    ("signature-profiles", "POST"): PROFILE,
    ("signature-profile", "PATCH"): {name: field for name, field in PROFILE.items() if name != "name"},
    ("event-types", "POST"): NEW_EVENT_TYPE,
    ("event-type", "PATCH"): {**NEW_EVENT_TYPE, "archived": flag(), "deprecated": flag()},
    ("events", "POST"): EVENT,
    ("event-batch", "POST"): {"events": Field((None, 5, "x", True, {}, [], [{}] * 1001), required=True)},
    ("delivery-replay", "POST"): {"why": WHY},
    ("replays", "POST"): {
        "filter": Field((None, 5, "x", True, [])),
        "state": choice(),
        "consumer": text(longest=255, blank=False),
        "endpoint": text(longest=64, blank=False),
        "event_type": text(longest=255, blank=False),
        "dead_reason": text(longest=64, blank=False),
        "error_kind": text(longest=32, blank=False),
        "event": text(longest=255, blank=False),
        "ordering_key": text(longest=255, blank=False),
        "deliveries": Field((None, 5, "x", True, {}, [], [5], [None], ["x"], ["evt_1"], ["dlv_x"] * 1001)),
        "since": time(),
        "until": time(),
        "missed_since": time(),
        "missed_until": time(),
        "all": flag(),
        "dry_run": flag(),
        "rate_per_second": whole(1, 10_000, nullable=True),
        "why": WHY,
    },
    ("replay-cancel", "POST"): {"why": WHY},
}
SHAPES: dict[str, type[BaseSerializer[Any]]] = {
    "consumers": ConsumerIn,
    "consumer": ConsumerIn,
    "keys": KeyIn,
    "endpoints": NewEndpointIn,
    "endpoint": EndpointIn,
    "key-rotate": KeyRotateIn,
    "rotate-secret": RotateIn,
    "signature-profiles": NewProfileIn,
    "signature-profile": ProfileIn,
    "event-types": NewEventTypeIn,
    "event-type": EventTypeIn,
    "replays": ReplayIn,
}


@pytest.mark.parametrize(("route", "method"), calls("POST", "PATCH"), ids=call_name)
def test_b_every_field_refuses_what_it_cannot_mean(
    route: Route, method: str, operator: Raw, things: dict[str, str]
) -> None:
    assert (route.name, method) in FIELDS, f"Say in FIELDS what {method} {route.template} must refuse."
    before = ledger()

    surprises = []
    for name, field in FIELDS[route.name, method].items():
        for value in field.refuses:
            body = json.dumps({**(route.good_body(method) or {}), name: value}).encode()
            answer = operator.send(method, route.path(things), body)
            if found := surprise(answer, 400, "invalid", f"/{name}"):
                surprises.append(f"{name} = {value!r:.60}: {found}")

    assert surprises == []
    assert ledger() == before


@pytest.mark.parametrize(("route", "method"), calls("POST"), ids=call_name)
def test_b_a_body_without_a_required_field_is_refused(
    route: Route, method: str, operator: Raw, things: dict[str, str]
) -> None:
    before = ledger()
    good = route.good_body(method) or {}

    surprises = []
    for name in [name for name, field in FIELDS[route.name, method].items() if field.required]:
        body = json.dumps({key: value for key, value in good.items() if key != name}).encode()
        if found := surprise(operator.send(method, route.path(things), body), 400, "invalid", f"/{name}"):
            surprises.append(f"without {name}: {found}")

    assert surprises == []
    assert ledger() == before


@pytest.mark.parametrize(("name", "shape"), SHAPES.items())
def test_b_no_field_is_left_out_of_these_tests(name: str, shape: type[BaseSerializer[Any]]) -> None:
    declared = shape().fields  # type: ignore[attr-defined]
    described = next(described for (route, _), described in FIELDS.items() if route == name)
    assert set(described) == set(declared)


def test_b_no_field_of_an_event_is_left_out_of_these_tests() -> None:
    # `id` is the producer's own, and traceparent is a header.
    declared = set(NewEvent._fields) - {"producer_id", "traceparent"} | {"id"}
    assert set(EVENT) == declared


def test_b_a_bad_event_in_a_batch_is_refused_by_itself(operator: Raw, things: dict[str, str]) -> None:
    good = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    bad: list[tuple[Any, str]] = [({**good, name: value}, name) for name in EVENT for value in EVENT[name].refuses]
    bad += [({key: good[key] for key in good if key != name}, name) for name in good]
    bad += [(item, "") for item in (None, 5, "x", True, [], [good])]
    events_before = Event.objects.count()

    answer = operator.send("POST", "events/batch/", json.dumps({"events": [good, *(item for item, _ in bad)]}).encode())

    assert answer.status_code == 202
    accepted, *refused = answer.json()["results"]
    assert accepted["status"] == "accepted"
    assert [result["status"] for result in refused] == ["refused"] * len(bad)
    assert {result["problem"]["code"] for result in refused} == {"invalid"}
    pointers = [result["problem"]["errors"][0]["pointer"] for result in refused]
    assert pointers == [f"/{name}" if name else "" for _, name in bad]
    assert Event.objects.count() == events_before + 1


# ── Addresses, methods and parameters ────────────────────────────────────────────────────────────────────────────────

ODD_NAMES = ["%00", "acme%00", "%FF", "%ED%A0%80", "%F0%9F%92%A5", "acme%0A", "%2E%2E", "'%3B--", "a" * 5000]
ODD_NAMES += ["evt_" + "z" * 26, "ep_" + "7" * 25, "con_" + "0" * 26, "dlv_"]


@pytest.mark.parametrize("route", [route for route in api_routes() if route.parameters], ids=call_name)
def test_b_an_odd_name_in_the_path_is_not_found(route: Route, operator: Raw, things: dict[str, str]) -> None:
    before = ledger()

    surprises = []
    for method, parameter, odd in product(route.roles, route.parameters, ODD_NAMES):
        body = json.dumps(route.good_body(method) or {}).encode()
        answer = operator.send(method, route.path({**things, parameter: odd}), body)
        if found := surprise(answer, 404, "not_found"):
            surprises.append(f"{method} {parameter} = {odd:.30}: {found}")

    assert surprises == []
    assert ledger() == before


@pytest.mark.parametrize("route", api_routes(), ids=call_name)
def test_b_a_method_that_a_route_does_not_have_is_refused(route: Route, operator: Raw, things: dict[str, str]) -> None:
    before = ledger()
    missing = {"GET", "POST", "PUT", "PATCH", "DELETE"} - set(route.roles)

    answers = {method: operator.send(method, route.path(things)) for method in missing}

    assert {method: surprise(answer, 405, "method_not_allowed") for method, answer in answers.items()} == dict.fromkeys(
        missing
    )
    assert ledger() == before


BAD_PARAMETERS = {
    "limit": ["0", "-1", "201", "x", "", "1.5", "٣", "9" * 30],
    "cursor": ["x", "W10", "eyJhIjoxfQ", "WzVd", "WyJ4Il0", "W251bGxd", "%00", "💥", "WyJceDAwIl0", "x" * 5000],
    "since": ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "1970-01-01T00:00:00Z", "9999-01-01T00:00:00Z"],
    "until": ["", "5", "2026-01-01T00:00:00"],
    "state": ["", "retrying", "DEAD", "%00"],
    "type": ["%00"],
    "event_type": ["%00"],
    "ordering_key": ["%00"],
}


@pytest.mark.parametrize("route", [route for route, _ in calls("GET")], ids=call_name)
def test_b_a_nonsense_parameter_never_breaks_a_read(route: Route, operator: Raw, things: dict[str, str]) -> None:
    asked = ["limit=0", "cursor=x", "cursor=WzVd", "since=x", "state=x", "consumer=%00", "%00=x"]

    answers = {query: operator.send("GET", f"{route.path(things)}?{query}") for query in asked}

    assert {query for query, answer in answers.items() if answer.status_code not in (200, 400)} == set()


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("consumers/", ["limit", "cursor"]),
        ("consumers/acme/keys/", ["limit", "cursor"]),
        ("consumers/acme/endpoints/", ["limit", "cursor"]),
        ("consumers/acme/feed/", ["limit", "cursor"]),
        ("event-types/", ["limit"]),
        ("events/", ["limit", "cursor", "since", "until", "state", "type", "ordering_key"]),
        ("deliveries/", ["limit", "cursor", "since", "until", "state", "event_type"]),
        ("replays/", ["limit", "cursor"]),
    ],
)
def test_b_a_list_refuses_a_parameter_that_it_cannot_mean(
    path: str, names: list[str], operator: Raw, acme: Consumer
) -> None:
    surprises = []
    for name in names:
        for value in BAD_PARAMETERS[name]:
            code = "invalid_cursor" if name == "cursor" and value != "%00" else "invalid_parameter"
            if found := surprise(operator.send("GET", f"{path}?{name}={value}"), 400, code):
                surprises.append(f"{name} = {value!r:.30}: {found}")

    assert surprises == []


def test_b_an_address_outside_the_url_map_is_a_problem_document() -> None:
    assert surprise(Raw(None).send("GET", "nonsense/"), 404, "not_found") is None


# ── Bodies that end elsewhere than they say ──────────────────────────────────────────────────────────────────────────


def send_to_its_end(raw: Raw, method: str, path: str, body: bytes, **environ: Any) -> Any:
    """As granian hands it over, which knows where a body ends; Django's client says a length of its own accord."""
    given: dict[str, Any] = {"wsgi.input": BytesIO(body), "wsgi.input_terminated": True, "CONTENT_TYPE": JSON}
    return raw._client.generic(method, f"/api/v1/{path}", **given, **environ)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "consumers/", b'{"uid": "globex"}'),
        ("PATCH", "consumers/acme/", b'{"name": "Globex"}'),
        ("DELETE", "consumers/acme/", b'{"dry_run": true}'),
        ("POST", "events/", b'{"consumer": "acme", "type": "invoice.paid", "data": {}}'),
    ],
)
def test_b_a_body_without_a_length_is_not_taken_for_an_empty_one(
    method: str, path: str, body: bytes, operator: Raw, things: dict[str, str]
) -> None:
    """Over HTTP/2 a body may come without one, and without a Transfer-Encoding that would tell."""
    before = ledger()
    assert surprise(send_to_its_end(operator, method, path, body), 411, "length_required") is None
    assert ledger() == before


def test_no_body_and_no_length_is_an_empty_body(operator: Raw, things: dict[str, str]) -> None:
    assert send_to_its_end(operator, "POST", "consumers/", b"").status_code == 201


@pytest.mark.parametrize(
    ("path", "length", "expected"),
    [
        ("events/", 57, (400, "invalid_json")),
        ("events/", 200_000, (400, "invalid_json")),
        ("events/", 300_000, (413, "payload_too_large")),
        ("events/batch/", 100, (400, "invalid_json")),
        ("events/batch/", 300_000, (400, "invalid_json")),
        ("events/batch/", 9_000_000, (413, "payload_too_large")),
    ],
)
def test_b_a_body_that_is_cut_short_is_refused_although_it_makes_sense(
    path: str, length: int, expected: tuple[int, str], operator: Raw, things: dict[str, str]
) -> None:
    event = b'{"consumer": "acme", "type": "invoice.paid", "data": {}}'
    body = event if path == "events/" else b'{"events": [%s]}' % event
    before = ledger()
    answer = send_to_its_end(operator, "POST", path, body, CONTENT_LENGTH=str(length))
    assert surprise(answer, *expected) is None
    assert ledger() == before


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def revoked() -> str:
    consumer = consumers.create(uid="revoked")
    key, secret = keys.issue(role=Role.CONSUMER, consumer=consumer)
    assert keys.revoke(key_id=key.id, consumer=consumer)
    return f"Bearer {secret}"


def of_a_deleted_consumer() -> str:
    consumer = consumers.create(uid="deleted")
    _, secret = keys.issue(role=Role.CONSUMER, consumer=consumer)
    consumers.delete(consumer)
    return f"Bearer {secret}"


def good() -> str:
    return keys.issue(role=Role.OPERATOR)[1]


def mistyped() -> str:
    secret = good()
    return f"Bearer {secret[:-1]}{'a' if secret[-1] != 'a' else 'b'}"


def expired() -> str:
    # Well before the test's transaction began: the database's now() is that moment.
    return f"Bearer {keys.issue(role=Role.OPERATOR, expires_at=timezone.now() - timedelta(minutes=10))[1]}"


BAD_KEYS: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "no secret": lambda: "Bearer ",
    "unknown": lambda: "Bearer whk_o_" + "A" * 46,
    "mistyped": mistyped,
    "another scheme": lambda: f"Basic {good()}",
    "no scheme": good,
    "not ASCII": lambda: "Bearer whk_o_Schlüssel",
    "expired": expired,
    "revoked": revoked,
    "of a deleted consumer": of_a_deleted_consumer,
}


@pytest.mark.parametrize("route", api_routes(), ids=call_name)
def test_s10_a_request_without_a_good_key_is_refused(route: Route, things: dict[str, str]) -> None:
    headers = {name: {"Authorization": make()} for name, make in BAD_KEYS.items()} | {"absent": {}}
    before = ledger()

    surprises = []
    for method, (name, header) in product(route.roles, headers.items()):
        body = json.dumps(route.good_body(method) or {}).encode()
        answer = Raw(None).send(method, route.path(things), body, **header)
        found = surprise(answer, 401, "not_authenticated")
        if found or answer["WWW-Authenticate"] != 'Bearer realm="webhooks"':
            surprises.append(f"{method} with a key that is {name}: {found}")

    assert surprises == []
    assert ledger() == before
