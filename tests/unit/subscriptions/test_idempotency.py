"""subscriptions/idempotency.py, the parts that need no database: which keys are usable, which bodies are the same."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions.idempotency import KeyInvalid, fingerprint, parse_key


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("abc", "abc"),
        ('"abc"', "abc"),
        ('  "abc"  ', "abc"),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("a b", "a b"),
        ('"a', '"a'),
        ('a"b', 'a"b'),
        ("!", "!"),
        ("x" * 255, "x" * 255),
        ('"' + "x" * 255 + '"', "x" * 255),
    ],
)
def test_a_key_is_the_same_quoted_or_bare(header: str, key: str) -> None:
    assert parse_key(header) == key


@pytest.mark.parametrize(
    "header", ["", " ", '""', '" "', '" a"', '"a "', "x" * 256, "a\nb", "a\tb", "a\0b", "schlüssel", "🎉", "\x7f"]
)
def test_what_is_not_1_to_255_visible_ascii_characters_is_no_key(header: str) -> None:
    with pytest.raises(KeyInvalid):
        parse_key(header)


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=255))
def test_quotes_make_no_difference_to_any_key(key: str) -> None:
    assert parse_key(f'"{key}"') == key


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(VALUES)
def test_white_space_and_the_order_of_keys_make_no_difference_to_a_fingerprint(value: Any) -> None:
    spaced = json.loads(json.dumps(value, indent=3, sort_keys=True))

    assert fingerprint(spaced) == fingerprint(value)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_bodies_that_differ_have_fingerprints_that_differ(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert (fingerprint(one) == fingerprint(other)) == same


def test_a_fingerprint_is_a_sha_256() -> None:
    assert fingerprint({}).hex() == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
