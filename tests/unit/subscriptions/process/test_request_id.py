"""subscriptions/process/request_id.py: which ids are taken over, and which are made."""

import re

import pytest

from subscriptions.process import request_id


@pytest.mark.parametrize("given", ["a", "req-1", "Root=1-67891233-abcdef012345678912345678", "a:b/c@d+e._", "x" * 128])
def test_a_well_formed_id_is_kept(given: str) -> None:
    own, token = request_id.begin(given)

    assert (own, request_id.current()) == (given, given)
    request_id.end(token)


@pytest.mark.parametrize("given", [None, "", "x" * 129, "two words", "a\nb", 'a"b', "a,b", "ü", "a;b", "<b>"])
def test_anything_else_is_replaced_by_a_new_one(given: str | None) -> None:
    own, token = request_id.begin(given)

    assert re.fullmatch(r"[0-9a-f]{32}", own)
    request_id.end(token)


def test_new_ids_differ() -> None:
    made = set()
    for _ in range(100):
        own, token = request_id.begin(None)
        request_id.end(token)
        made.add(own)

    assert len(made) == 100


def test_there_is_none_outside_of_a_request() -> None:
    _, token = request_id.begin("one")
    request_id.end(token)

    assert request_id.current() is None
