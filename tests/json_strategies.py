"""JSON as producers may send it, for property tests."""

import json
from typing import Any

from hypothesis import strategies as st

_LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
# Characters that parsers, terminals and databases trip over, more often than chance would bring them.
_TRICKY = st.sampled_from('\u2028\u2029\ufeff\ufffd\x7f\x01"\\/<>&😀🏳️‍🌈e\u0301éﬁ\u202e')
_TEXT = st.text(_LETTERS | _TRICKY, max_size=20)
_INTEGERS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([2**53 + 1, 2**63, 2**64 - 1, -(2**63), 0])
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def _nested(leaves: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5), max_leaves=20
    )


# What we promise to take.
GOOD_JSON = _nested(st.none() | st.booleans() | _INTEGERS | _FLOATS | _TEXT, _TEXT)
GOOD_OBJECTS = st.dictionaries(_TEXT, GOOD_JSON, max_size=5)

# And what some encoders write as well: NaN, integers without end, NUL, lone surrogates.
_WILD_TEXT = st.text(st.characters() | _TRICKY | st.sampled_from("\0\ud800\udfff"), max_size=20)
ANY_JSON = _nested(st.none() | st.booleans() | st.integers() | st.floats() | _WILD_TEXT, _WILD_TEXT)


def exactly(value: Any) -> str:
    """Equal only for equal values in the same order of keys: 1 is not 1.0, and 0.0 is not -0.0."""
    return json.dumps(value)
