"""Hostile requests to every page and form of console and portal, as every kind of visitor: none may answer 5xx.

Addresses come from the URL map. Each example is one request in a transaction that is
rolled back, so every one meets the same rows, whatever the ones before it did. `fuzz(examples=…)` needs a database that
belongs to the test (tests/fuzz/test_pages.py); a long run is
`FUZZ_EXAMPLES=20000 python -m pytest tests/fuzz/test_pages.py`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.contrib.auth.models import User
from django.db import transaction
from django.http.cookie import SimpleCookie
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.console import event_types as event_type_pages
from deliveries.console import users as user_pages
from subscriptions import consumers, event_types, keys
from subscriptions.models import ApiKey, Consumer, Role
from tests.console import dead_letters, logged_in
from tests.forms import forms_on
from tests.portal import inside
from tests.walk import accept, new_endpoint

HOSTILE: list[bytes] = [
    b"", b" ", b"\0", b"a\0b", "²".encode(), "١٢٣".encode(), "①".encode(), b"9" * 400, b"9" * 5000, b"-1", b"0",
    b"1e309", b"NaN", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"%00", b"%", b"'\"><script>", b"../../..",
    b"a" * 5000, "\u202e\ufeff".encode(), "😀".encode(), b"[]", b"{}", b"null", b"true", b"2026-13-45T99:99",
    b"1960-01-01", b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59", b"2026-01-31T12:00:00.123456789Z", b"*",
    b"://", b"ep_00000000000000000000000000", b"evt_7zzzzzzzzzzzzzzzzzzzzzzzzz", b"con_", b"dlv_" + b"z" * 26,
    b"a.b",
    b"ffffffff-ffff-ffff-ffff-ffffffffffff", b"00000000-0000-0000-0000-000000000000", b"\r\nSet-Cookie: a=b",
    b"18446744073709551616.00000000-0000-0000-0000-000000000000", b"1.ffffffff-ffff-ffff-ffff-ffffffffffff",
    b"http://[::1", b"https://a.test:99999/", b"http://127.0.0.1:9/\xe2\x80\xa8", b"//evil.test/", b"javascript:1",
    b"2147483648", b"9223372036854775808", b"(((", b"\\", b"on", b"yes", b"everything", b"_saveasnew",
]  # fmt: skip
QUERY_NAMES = [
    "q", "consumer", "endpoint", "event_type", "type", "reason", "error", "within", "since", "until", "actor", "target",
    "before", "after", "state", "status", "tested", "range", "next", "delivery", "scope", "o", "p", "e", "all",
    "_popup", "_to_field", "_changelist_filters", "role__exact", "status__exact", "is_staff__exact",
    "consumer__id__exact", "url__regex", "pk__in", "id__exact", "term", "app_label", "model_name", "field_name", "a[]",
    "__", "",
]  # fmt: skip
METHODS = ["GET"] * 5 + ["POST"] * 7 + ["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "QUERY"]
CONTENT_TYPES = ["application/x-www-form-urlencoded"] * 5 + [
    "multipart/form-data; boundary=edge", "multipart/form-data", "application/json", "text/plain; charset=utf-16",
    "application/x-www-form-urlencoded; charset=nonsense", "",
]  # fmt: skip
COOKIES = ["sessionid", "portal_session", "csrftoken", "messages"]

TEXTS = st.sampled_from(HOSTILE) | st.binary(max_size=12) | st.text(max_size=12).map(str.encode)


@dataclass(frozen=True)
class Page:
    """An address with its parameters in braces."""

    template: str

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.template)


@dataclass(frozen=True)
class World:
    """Who visits, and the real names that some requests use."""

    visitors: dict[str, Client]
    names: dict[str, list[str]]
    fields: list[str]


def fuzz(*, examples: int, number: int = 16) -> Counter[int]:
    """How often each status was answered. Fails with the first request that is answered 5xx."""
    world, answers = _world(), Counter[int]()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        # One after the other, as drawn: nothing is shrunk for longer than the run itself.
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def one(data: st.DataObject) -> None:
        answers[_send(world, data)] += 1

    one()
    return answers


def pages() -> list[Page]:
    """Everything under /admin/ and /portal/."""
    return [
        Page(f"/{path}") for path in _walk(get_resolver().url_patterns, "") if path.startswith(("admin/", "portal/"))
    ]


def _walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[str]:
    for pattern in patterns:
        path = prefix + _template(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, path)
        else:
            yield path


def _template(text: str) -> str:
    """`<str:token>` and `(?P<url>.*)` → `{token}` and `{url}`."""
    named = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", text.replace("(?P<", "(?P‹")))
    named = re.sub(r"\(\?P‹(\w+)>[^)]*\)", r"{\1}", named)
    return named.lstrip("^").rstrip("$").replace("\\Z", "")


def _send(world: World, data: st.DataObject) -> int:
    page = data.draw(st.sampled_from(pages()), label="page")
    values = {name: quote(data.draw(_value(world, name), label=name)) for name in page.parameters}
    query = _pairs(data.draw(st.lists(st.tuples(st.sampled_from(QUERY_NAMES), TEXTS), max_size=3), label="query"))
    who = data.draw(st.sampled_from(sorted(world.visitors)), label="visitor")
    method = data.draw(st.sampled_from(METHODS), label="method")
    content_type = data.draw(st.sampled_from(CONTENT_TYPES), label="content type")
    fields = data.draw(st.lists(st.tuples(st.sampled_from(world.fields), _value(world, "")), max_size=6), label="form")
    cookie = data.draw(st.none() | st.tuples(st.sampled_from(COOKIES), TEXTS) if method == "GET" else st.none())
    client = Client(headers=_cookie_header(world.visitors[who], cookie))
    with transaction.atomic():
        answer: Any = client.generic(
            method, page.template.format(**values), _body(content_type, fields), content_type, query_string=query
        )
        transaction.set_rollback(True)
    assert answer.status_code < 500, answer.status_code
    return int(answer.status_code)


def _value(world: World, name: str) -> st.SearchStrategy[bytes]:
    """As often a real name as a hostile one, so that requests get as far as they can."""
    real = world.names.get(name) or sorted({each for known in world.names.values() for each in known})
    return st.sampled_from([each.encode() for each in real]) | TEXTS


def _pairs(given_pairs: list[tuple[str, bytes]]) -> str:
    return "&".join(f"{quote(name, safe='[]')}={quote(value)}" for name, value in given_pairs)


def _body(content_type: str, fields: list[tuple[str, bytes]]) -> bytes:
    if not content_type.startswith("multipart"):
        return _pairs(fields).encode()
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
        for name, value in fields
    ]
    return b"".join(parts) + b"--edge--\r\n"


def _cookie_header(client: Client, hostile: tuple[str, bytes] | None) -> dict[str, str]:
    cookies = SimpleCookie({name: morsel.value for name, morsel in client.cookies.items()})
    text = "; ".join(f"{name}={morsel.coded_value}" for name, morsel in cookies.items())
    if hostile is not None:
        name, value = hostile
        octal = "".join(chr(byte) if 35 <= byte < 92 and byte != 59 else f"\\{byte:03o}" for byte in value[:200])
        text += f'; {name}="{octal}"'
    return {"Cookie": text.lstrip("; ")} if text else {}


def _world() -> World:
    acme, globex = consumers.create(uid="fuzzed"), consumers.create(uid="neighbour")
    event_types.create(name="brand.new")
    names = _names(acme)
    visitors = {
        "anonymous": Client(),
        "staff without a role": logged_in("nobody"),
        "reader": logged_in("rita", group="Read-only"),
        "operator": logged_in("olga", group="Operators"),
        "superuser": logged_in("susi", is_superuser=True),
        "visitor": inside(acme),
        "another visitor": inside(globex),
    }
    return World(visitors, names, _fields(visitors, names))


def _names(consumer: Consumer) -> dict[str, list[str]]:
    endpoint, [delivery, *_] = dead_letters(consumer, 2, url="http://127.0.0.1:9/hook")
    waiting = new_endpoint(consumer, url="http://127.0.0.1:9/other", event_types=["order.made"])
    accept(consumer, type="order.made")
    job = replay.start(Filter(endpoint_id=endpoint.id), consumer=consumer, rate_per_second=1, requested_by="somebody")
    keys.issue(role=Role.CONSUMER, consumer=consumer)
    public = [
        endpoint.public_id, consumer.public_id, delivery.public_id, job.public_id, waiting.public_id,
        ApiKey.objects.all()[0].public_id,
    ]  # fmt: skip
    return {
        "public_id": public,
        "endpoint": [endpoint.public_id],
        "delivery": [delivery.public_id],
        "event_id": [str(delivery.event_id)],
        "action": [
            "pause",
            "resume",
            "disable",
            "probe",
            "rotate",
            "test",
            "check-up",
            "replay",
            "retry-now",
            "give-up",
            *event_type_pages.ACTIONS,
            *user_pages.ALL_ACTIONS,
        ],
        "turn": ["on", "off"],
        "name": ["brand.new", "order.made"],
        "user_id": [str(each) for each in User.objects.values_list("pk", flat=True)],
        "token": ["nonsense"],
    }


def _fields(visitors: dict[str, Client], names: dict[str, list[str]]) -> list[str]:
    """The fields of every form that a superuser or a visitor finds, and some that belong to none."""
    found = {
        "next",
        "force",
        "delivery",
        "action",
        "_selected_action",
        "index",
        "select_across",
        "a[]",
        "_save",
        "_popup",
    }
    for page in pages():
        for who in ("superuser", "visitor"):
            for value in ([[]] if not page.parameters else [names.get(page.parameters[0], [])])[0] or [""]:
                path = page.template.format(**dict.fromkeys(page.parameters, value))
                answer: Any = visitors[who].get(path)
                if answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/html"):
                    found.update(name for form in forms_on(answer) for name in form.names)
    return sorted(found - {""})
