"""deliveries/sql/compact.py: what is sent is short enough to be remembered, and means what was written."""

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from deliveries import claim, settle, sweep
from deliveries.accepting import insert
from deliveries.sql.compact import compact
from deliveries.statistics import deltas


def test_comments_and_indents_are_left_out() -> None:
    written = """
        SELECT string_to_array(words, ' '), ( 1 )  -- a comment, with 'quotes' in it
            -- and one by itself
        FROM given
    """
    assert compact(written) == "SELECT string_to_array(words,' '),(1) FROM given"


@pytest.mark.parametrize("module", [claim, settle, insert, sweep, deltas], ids=lambda module: module.__name__)
def test_psycopg_remembers_the_statements_of_the_hot_path(module: object) -> None:
    statements = {name: text for name, text in vars(module).items() if name.isupper() and not name.startswith("_")}
    texts = {name: text for name, text in statements.items() if isinstance(text, str)}
    assert texts
    assert {name: len(text) for name, text in texts.items() if len(text) > MAX_CACHED_STATEMENT_LENGTH} == {}
