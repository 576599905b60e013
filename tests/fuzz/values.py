"""What requests are made of: values that fit a declared field, values that fit nothing, and ids of both consumers.

Ids are drawn as places in a list (`Place`), not as text, so that the same seed draws the same requests in every run.
"""

from typing import Any, NamedTuple

from hypothesis import strategies as st
from rest_framework import serializers

from tests.json_strategies import ANY_JSON, GOOD_OBJECTS
from tests.tenants import Tenants

Strategy = st.SearchStrategy[Any]

THINGS = ("consumer", "endpoint", "event", "delivery", "key", "replay")
OWNERS = ("ours", "theirs")


class Place(NamedTuple):
    """One consumer's thing of a kind: `Place("theirs", "endpoint")`."""

    owner: str
    kind: str

    def text(self, tenants: Tenants) -> str:
        tenant = tenants.ours if self.owner == "ours" else tenants.theirs
        return tenant.consumer.public_id if self.kind == "consumer id" else tenant.things[self.kind]


def place(kind: str) -> Strategy:
    kinds = ["consumer", "consumer id"] if kind == "consumer" else [kind]
    return st.builds(Place, st.sampled_from(OWNERS), st.sampled_from(kinds))


LONG = "x" * 5000
_ODD_TEXTS = ["", " ", "0", "-1", "null", "true", "*", "%", "..", "'; DROP TABLE x; --", "{{7*7}}", "<script>"]
_ODD_TEXTS += ["a\r\nX-A: b", "\u202e", "😀", "ﬁ", "é", "٣", "²", "\ufeff", "\x7f", LONG, "9" * 400, "con_", "ep_7"]
TEXTS = st.sampled_from(_ODD_TEXTS) | st.text(max_size=12)
_TIMES = ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00+15:59", "2999-01-01T00:00:00Z", "1960-01-01T00:00:00Z"]
_TIMES += ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-31", "2026-02-30T00:00:00Z", "now", ""]
TIMES = st.sampled_from(_TIMES)
_URLS = ["http://127.0.0.1:9/fuzz", "http://127.0.0.1:9/" + "x" * 2000, "http://127.0.0.1:9/?a=b", "http://10.0.0.1/"]
_URLS += ["http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", "http://0x7f000001/", "http://a:b@127.0.0.1:9/"]
_URLS += [
    "http://127.0.0.1:9/#f",
    "ftp://127.0.0.1/",
    "http://\u2024/",
    "http://xn--/",
    "http://[::1",
    "//",
    "http://a",
]
URLS = st.sampled_from(_URLS)
_CURSORS = ["", "W10", "WzVd", "WyJ4Il0", "eyJhIjoxfQ", "WyIwMDAwIl0", "W251bGwsbnVsbF0", "e30", "WyIxIiwiMCJd"]
WILD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1.5, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400]),
    st.sampled_from([float("nan"), float("inf"), 1e308, -0.0]),
    st.sampled_from(["\0", "a\0b", "\ud800", "\udfff", LONG]),
    st.sampled_from([[], {}, [[]], [{}], {"": ""}, [None], {"a": None}]),
    TEXTS,
    ANY_JSON,
)

# By the name of a field or parameter, where its type says too little.
_BY_NAME: dict[str, Strategy] = {
    "consumer": place("consumer"),
    "endpoint": place("endpoint"),
    "event": place("event"),
    "url": URLS,
    "type": st.sampled_from(["invoice.paid", "order.made", "a.b.c"]),
    "event_type": st.sampled_from(["invoice.paid", "order.made"]),
    "event_types": st.lists(st.sampled_from(["*", "invoice.*", "invoice.paid"]), min_size=1, max_size=3),
    "headers": st.dictionaries(st.sampled_from(["X-A", "X_B", "Host", "webhook-id"]), TEXTS, max_size=2),
    "uid": st.uuids().map(str),
    "name": st.uuids().map(lambda drawn: f"fuzz.{drawn}"),
    "data": GOOD_OBJECTS,
    "id": st.uuids().map(str),
    "api_version": st.sampled_from(["1", "2", "2026-01"]),
    "occurred_at": TIMES,
    "since": TIMES,
    "until": TIMES,
    "expires_at": TIMES,
    "ordering_key": st.sampled_from(["a", "b"]),
    "state": st.sampled_from(["dead", "delivered", "pending", "in_flight"]),
    "limit": st.sampled_from(["1", "2", "200", "0", "201", "-1", "1.0"]),
    "cursor": st.sampled_from(_CURSORS) | TEXTS,
    "dry_run": st.sampled_from(["true", "false", "yes", ""]),
    "archived": st.sampled_from(["true", "false", "1"]),
    "email": st.just("a@example.com"),
    "contact_email": st.just("a@example.com"),
}


def fitting(name: str, field: Any = None) -> Strategy:
    """A value that the field may well take. `field` is its serializer's, if it has one."""
    match field:
        case serializers.BooleanField():
            return st.booleans()
        case serializers.ChoiceField():
            return st.sampled_from(list(field.choices))
        case serializers.IntegerField():
            return st.integers(field.min_value, field.max_value)
        case serializers.ListSerializer():
            return st.lists(fitting_object(field.child), max_size=2)
        case serializers.BaseSerializer():
            return fitting_object(field)
        case _ if name in _BY_NAME:
            return _BY_NAME[name]
        case serializers.DictField():
            return st.dictionaries(TEXTS, TEXTS, max_size=2)
        case serializers.ListField():
            return st.lists(fitting(name, field.child), min_size=1, max_size=3)
        case serializers.JSONField():
            return GOOD_OBJECTS
        case _:
            return TEXTS


def fitting_object(shape: Any) -> Strategy:
    fields = {name: fitting(name, field) for name, field in shape.fields.items()}
    return st.fixed_dictionaries({}, optional=fields)


def settled(value: Any, tenants: Tenants) -> Any:
    """The same with every place filled in."""
    if isinstance(value, Place):
        return value.text(tenants)
    if isinstance(value, dict):
        return {settled(name, tenants): settled(inner, tenants) for name, inner in value.items()}
    return [settled(inner, tenants) for inner in value] if isinstance(value, list) else value
