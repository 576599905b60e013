"""Requests to one route, drawn from what its view declares: good ones, nearly good ones and hostile ones."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from tests.fuzz.values import TEXTS, THINGS, WILD, Place, Strategy, fitting, place, settled
from tests.routes import Route
from tests.tenants import Tenants

JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """As it goes out, but for the key: every role sends the same."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    # Whose things the path names: `ours`, `theirs`, or nobody's.
    owners: frozenset[str]


@dataclass(frozen=True)
class Drawn:
    """A request before the ids are filled in."""

    method: str
    template: str
    segments: dict[str, Any]
    slash: str
    query: Any
    headers: dict[str, str]
    content: Any
    encode: Callable[[Any], bytes]

    def request(self, tenants: Tenants) -> Request:
        segments = {name: quote(_text(settled(value, tenants)), safe="") for name, value in self.segments.items()}
        places = [value for value in self.segments.values() if isinstance(value, Place)]
        # The catalogue is everybody's.
        owners = frozenset(each.owner for each in places if each.kind != "name")
        path = f"/api/v1/{self.template.format_map(segments)}{self.slash}"
        body = b"" if self.method == "HEAD" else self.encode(settled(self.content, tenants))
        return Request(self.method, path + _query(settled(self.query, tenants)), self.headers, body, owners)


def drawn(route: Route, method: str) -> st.SearchStrategy[Drawn]:
    return st.builds(
        Drawn,
        method=st.sampled_from([method] * 14 + ["HEAD", "OPTIONS", "PUT", "QUERY"]),
        template=st.just(route.template),
        segments=st.fixed_dictionaries({name: _segment(name) for name in route.parameters}),
        slash=st.sampled_from(["/", "/", ""]),
        query=_parameters(route, method),
        headers=_headers(),
        content=_content(route, method),
        encode=st.sampled_from(_ENCODERS),
    )


# ── The path and the query string ────────────────────────────────────────────────────────────────────────────────────


def _segment(name: str) -> Strategy:
    odd = st.sampled_from(["\0", "\n", "..", ".", "a/b", "%2F", "evt_" + "z" * 26, "ep_" + "7" * 26, "con_"]) | TEXTS
    # An id of another kind, too.
    other = st.sampled_from(THINGS).flatmap(place)
    return _mostly(place(name), other, odd.filter(lambda text: text != ""))


def _parameters(route: Route, method: str) -> Strategy:
    known = route.query_parameters(method) or ("limit",)
    names = _mostly(st.sampled_from(known), TEXTS, st.sampled_from(["Limit", "dryrun", "limit[]", "why", "format"]))
    pair = names.flatmap(lambda name: st.tuples(st.just(name), _mostly(fitting(name), TEXTS)))
    raw = st.sampled_from(
        ["&", "=", "%", "%ff=%fe", "a=%00", "%00", "limit", "limit=1&limit=2", ";", "a" * 4000, "?", "&" * 1500]
    )
    return _mostly(st.lists(pair, min_size=1 if method == "GET" else 0, max_size=2), raw, st.just([]))


def _query(drawn: Any) -> str:
    if isinstance(drawn, str):
        return f"?{quote(drawn, safe='&=%;?')}"
    pairs = [f"{quote(_text(name), safe='')}={quote(_text(value), safe='')}" for name, value in drawn]
    return f"?{'&'.join(pairs)}" if pairs else ""


def _text(value: Any) -> bytes:
    return str(value).encode(errors="surrogatepass")


# ── The body ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _content(route: Route, method: str) -> Strategy:
    """A good body, one with some fields of other values, one with fields that are not known, or no object at all."""
    good = _placed(route.good_body(method) or {}) if method in ("POST", "PATCH") else {}
    fields = _fields(route, method)
    changed = st.fixed_dictionaries({}, optional=fields)
    wild = st.dictionaries(st.sampled_from([*fields, "no_such"]) if fields else TEXTS, WILD, max_size=2)
    mixed = st.builds(
        lambda *parts: {name: value for part in parts for name, value in part.items()}, st.just(good), changed, wild
    )
    fit = st.builds(lambda change: {**good, **change}, changed)
    return _mostly(fit, mixed, wild, changed) if method in ("POST", "PATCH") else _mostly(st.just(None), wild)


def _placed(value: Any) -> Any:
    """A good body is about `acme`, wherever it names a consumer."""
    if isinstance(value, dict):
        return {name: _placed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_placed(inner) for inner in value]
    return Place("ours", "consumer") if value == "acme" else value


def _fields(route: Route, method: str) -> dict[str, Strategy]:
    declared: Any = route.view.fields.get(method) if route.view else None
    if isinstance(declared, type):
        shape: Any = declared()
        return {name: fitting(name, field) for name, field in shape.fields.items()}
    events = st.lists(_event() | WILD, max_size=3)
    return {name: events if name == "events" else fitting(name) for name in route.fields(method)}


def _event() -> Strategy:
    names = ("consumer", "type", "data")
    return st.fixed_dictionaries(
        {name: fitting(name) for name in names},
        optional={name: fitting(name) for name in ("id", "api_version", "occurred_at", "ordering_key", "why")},
    )


def _plain(content: Any) -> bytes:
    return b"" if content is None else json.dumps(content).encode()


def _spaced(content: Any) -> bytes:
    return b"" if content is None else json.dumps(content, indent=1, ensure_ascii=False).encode(errors="surrogatepass")


def _truncated(content: Any) -> bytes:
    return _plain(content)[:-1]


def _doubled(content: Any) -> bytes:
    plain = _plain(content)
    return plain[:-1] + b"," + plain[1:] if plain not in (b"", b"{}") else b'{"a":1,"a":1}'


def _deep(content: Any) -> bytes:
    return b'{"data":' + b"[" * 20_000 + b"]" * 20_000 + b"}"


def _utf16(content: Any) -> bytes:
    return json.dumps(content).encode("utf-16")


def _listed(content: Any) -> bytes:
    return json.dumps([content]).encode()


def _large(content: Any) -> bytes:
    return b'{"data": {"a": "' + b"x" * 300_000 + b'"}}'


_ENCODERS = [*[_plain] * 12, _spaced, _spaced, _truncated, _doubled, _deep, _utf16, _listed, _large]


# ── Headers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _headers() -> st.SearchStrategy[dict[str, str]]:
    types = ["text/plain", "", "application/json; charset=utf-16", 'application/json; charset="utf-8"', "*/*", "é"]
    types += [f"{JSON}; charset=hex", f"{JSON}; charset*=klingon''x", f"{JSON}; charset", "a" * 12_000]
    types += ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json;" + "a" * 3000]
    odd = st.sampled_from(["", '""', "k", '"k"', "é", "k" * 300, "\t", "0", "-1", "²"])
    return st.fixed_dictionaries(
        {"Content-Type": _mostly(st.just(JSON), st.sampled_from(types))},
        optional={
            "Idempotency-Key": _mostly(st.uuids().map(str), odd),
            "traceparent": odd,
            "Accept": st.sampled_from(["text/html", "application/xml", "*/*;q=0", ""]),
            "Content-Encoding": st.sampled_from(["gzip", "br", "x"]),
            "X-HTTP-Method-Override": st.sampled_from(["DELETE", "PUT"]),
            "X-Forwarded-Host": odd,
            "X-Forwarded-Proto": odd,
            "Cookie": st.sampled_from(["sessionid=x", "a=é; =;;", "x" * 4000]),
            "Range": st.just("bytes=0-1"),
            "If-None-Match": st.just("*"),
        },
    )


def _mostly(usual: Strategy, *others: Strategy) -> Strategy:
    """The usual one in two of three. (`one_of` would count a strategy given twice only once.)"""
    return st.integers(0, 2).flatmap(lambda turn: st.one_of(*others) if turn == 2 else usual)
