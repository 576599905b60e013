"""subscriptions/signing/recipe.py: what is no way of signing is refused, at the field that is wrong."""

from typing import Any

import pytest

from subscriptions.signing.ready_made import READY_MADE
from subscriptions.signing.recipe import Recipe, RefusedRecipe, read

RIGHT = {"signed": "{timestamp}.{body}"}


@pytest.mark.parametrize("name", READY_MADE)
def test_every_ready_made_recipe_could_be_an_operators_own(name: str) -> None:
    assert read(READY_MADE[name].as_json()) == READY_MADE[name]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("signed", "{timestamp}"),
        ("signed", "{body}{body}"),
        ("signed", "{body}{secret}"),
        ("signed", "{body"),
        ("signed", "body}{body}"),
        ("signed", "{body}" + "x" * 200),
        ("signed", "{body}\n"),
        ("signed", "é{body}"),
        ("lead", "{body}"),
        ("lead", " t="),
        ("prefix", "{timestamp}"),
        ("prefix", "a\r\nx-injected: 1"),
        ("separator", ""),
        ("separator", "a"),
        ("separator", "="),
        ("hash", "md5"),
        ("encoding", "utf-8"),
        ("key", "rot13"),
        ("timestamp_header", None),
        ("signature_header", "Host"),
        ("signature_header", "content-length"),
        ("signature_header", "no spaces"),
        ("signature_header", "x" * 65),
        ("id_header", "webhook-test"),
        ("id_header", "proxy-id"),
        ("id_header", "ce-id"),
        ("type_header", "idempotency-key"),
        ("type_header", "Webhook_Signature"),
        ("second_header", "webhook-signature"),
    ],
)
def test_what_receivers_could_not_verify_is_refused_at_its_field(field: str, value: Any) -> None:
    with pytest.raises(RefusedRecipe) as refused:
        read({**RIGHT, field: value})

    assert refused.value.pointer == f"/{field}"


def test_a_separator_that_begins_no_signature_is_needed_between_two_of_them() -> None:
    with pytest.raises(RefusedRecipe) as refused:
        read({**RIGHT, "prefix": "v1,", "separator": ","})
    assert refused.value.pointer == "/separator"

    assert read({**RIGHT, "prefix": "v1,", "separator": ",", "second_header": "x-next"}).separator == ","


def test_the_id_is_signed_only_where_receivers_get_it() -> None:
    with pytest.raises(RefusedRecipe) as refused:
        read({"signed": "{id}{body}", "id_header": None})

    assert refused.value.pointer == "/id_header"


def test_a_time_before_the_signatures_needs_no_header_of_its_own() -> None:
    assert read({**RIGHT, "timestamp_header": None, "lead": "t={timestamp},"}).timestamp_header is None


def test_old_hashes_and_unsigned_times_are_warned_of() -> None:
    assert [len(Recipe(signed=signed, hash=name).warnings) for signed, name in (
        ("{timestamp}.{body}", "sha256"), ("{body}", "sha256"), ("{body}", "sha1"),
    )] == [0, 1, 2]  # fmt: skip
