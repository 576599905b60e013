"""deliveries/pump/forms.py: a stored body in each form, read by the CloudEvents SDK."""

from typing import Any

import orjson
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from hypothesis import given, settings
from hypothesis import strategies as st

from deliveries.pump import forms

SOURCE = "/webhooks/consumers/con_01m7h3xmx1es6vbckezbxg7h8a"
WHOLE: dict[str, Any] = {
    "id": "evt_01m7h3xmx1es6vbckezbxg7h8a",
    "type": "invoice.paid",
    "created_at": "2026-11-18T10:00:00.000001Z",
    "timestamp": "2026-11-18T09:59:00.000000Z",
    "api_version": "2026-01",
    "data": {"invoice_id": "4711", "amount": 10.0, "name": "Zoë \u2028 東京", "big": 2**63},
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def sdk(form: forms.Form) -> Any:
    return from_http_event(
        HTTPMessage(headers={"content-type": form.content_type, **dict(form.headers)}, body=form.body)
    )


@pytest.mark.parametrize("mode", ["cloudevents", "cloudevents_binary"])
@settings(deadline=None)
@given(
    key=TEXTS,
    data=st.dictionaries(TEXTS, TEXTS | st.integers(0, 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)),
)
def test_the_sdk_reads_every_event_in_both_modes(mode: str, key: str, data: dict[str, Any]) -> None:
    body = orjson.dumps({**WHOLE, "data": data, "ordering_key": key, "sequence": 7})

    read = sdk(forms.of(mode, body, source=SOURCE))

    assert (read.get_id(), read.get_source(), read.get_type(), read.get_specversion()) == (
        WHOLE["id"], SOURCE, "invoice.paid", "1.0",
    )  # fmt: skip
    assert read.get_time().isoformat() == "2026-11-18T09:59:00+00:00"
    assert read.get_datacontenttype() == "application/json"
    assert [read.get_extension(name) for name in ("apiversion", "partitionkey", "sequence")] == ["2026-01", key, "7"]
    assert read.get_data() == data


def test_headers_of_a_binary_event_are_printable_ascii() -> None:
    body = orjson.dumps({**WHOLE, "ordering_key": 'Zoë "5%"', "sequence": 1})

    assert dict(forms.of("cloudevents_binary", body, source=SOURCE).headers)["ce-partitionkey"] == (
        "Zo%C3%AB%20%225%25%22"
    )


def test_data_of_a_binary_event_is_the_whole_body() -> None:
    assert forms.of("cloudevents_binary", orjson.dumps(WHOLE), source=SOURCE).body == orjson.dumps(WHOLE["data"])


def test_a_full_body_is_what_was_stored_byte_for_byte() -> None:
    assert forms.of("full", b' {"kept":  "as it is"}', source=SOURCE) == forms.Form(b' {"kept":  "as it is"}')


def test_a_thin_body_keeps_of_its_data_what_names_things() -> None:
    data = {
        "id": "in_1", "customer_id": 5, "accountId": "a", "line_ids": ["l1", "l2"], "parent_id": None,
        "amount": 10, "paid": True, "valid": True, "is_valid_id": True, "owner_id": {"secret": 1}, "lines": [],
    }  # fmt: skip

    assert orjson.loads(forms.thin(orjson.dumps({**WHOLE, "data": data}))) == {
        **WHOLE,
        "data": {"id": "in_1", "customer_id": 5, "accountId": "a", "line_ids": ["l1", "l2"], "parent_id": None},
    }


def test_a_thin_body_has_no_data_where_nothing_in_it_names_things() -> None:
    thin = orjson.loads(forms.thin(orjson.dumps({**WHOLE, "data": {"amount": 10, "id": {"secret": 1}}})))

    assert thin == {name: value for name, value in WHOLE.items() if name != "data"}


def test_an_event_of_before_bodies_had_a_timestamp_happened_when_it_was_accepted() -> None:
    old = {name: value for name, value in WHOLE.items() if name != "timestamp"}

    assert dict(forms.of("cloudevents_binary", orjson.dumps(old), source=SOURCE).headers)["ce-time"] == (
        "2026-11-18T10:00:00.000001Z"
    )
