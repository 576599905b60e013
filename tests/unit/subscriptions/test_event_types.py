"""subscriptions/event_types.py: names, and the patterns endpoints ask by."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions.event_types import is_name, is_pattern, patterns_for

SEGMENTS = st.text("abcXYZ019_-", min_size=1, max_size=8)
NAMES = st.lists(SEGMENTS, min_size=1, max_size=6).map(".".join)


@pytest.mark.parametrize("name", ["invoice", "invoice.paid", "a.b.c.d", "Invoice_2-x.PAID", "9", "-", "a" * 255])
def test_dot_separated_words_are_names_and_patterns(name: str) -> None:
    assert is_name(name)
    assert is_pattern(name)


@pytest.mark.parametrize("pattern", ["*", "invoice.*", "invoice.paid.*"])
def test_a_star_at_the_end_is_a_pattern_and_no_name(pattern: str) -> None:
    assert is_pattern(pattern)
    assert not is_name(pattern)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "invoice.",
        ".paid",
        "invoice..paid",
        "invoice paid",
        "invoice.paid\n",
        "invoice/paid",
        "rechnung.bezählt",
        "**",
        "*.*",
        "*.paid",
        "invoice.*.paid",
        "invoice.p*",
        "invoice*",
        "a" * 256,
        "a" * 254 + ".*",
    ],
)
def test_anything_else_is_neither(text: str) -> None:
    assert not is_name(text)
    assert not is_pattern(text)


def test_a_name_is_matched_by_itself_by_each_of_its_families_and_by_the_star() -> None:
    assert patterns_for("a.b.c") == ("a.b.c", "a.b.*", "a.*", "*")
    assert patterns_for("a") == ("a", "*")


def test_a_notification_is_asked_for_by_its_name_or_family_alone() -> None:
    assert patterns_for("notification.endpoint_failing") == ("notification.endpoint_failing", "notification.*")
    assert patterns_for("notification.other")[-1] == "*"


@settings(deadline=None)
@given(NAMES)
def test_every_pattern_for_a_name_is_one_an_endpoint_may_ask_by(name: str) -> None:
    assert is_name(name)
    assert all(is_pattern(pattern) for pattern in patterns_for(name))


@settings(deadline=None)
@given(NAMES, NAMES)
def test_a_family_takes_in_exactly_the_names_that_begin_with_it(family: str, name: str) -> None:
    assert (f"{family}.*" in patterns_for(name)) == name.startswith(f"{family}.")
