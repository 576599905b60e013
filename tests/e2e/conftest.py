"""The whole stack and a browser, for every test in this folder."""

from tests.browser import page
from tests.stack import migrated_postgres, own_postgres, own_valkey, start_stack

__all__ = ["migrated_postgres", "own_postgres", "own_valkey", "page", "start_stack"]
