"""The whole stack, for every test in this folder."""

from tests.stack import migrated_postgres, own_postgres, own_valkey, start_stack

__all__ = ["migrated_postgres", "own_postgres", "own_valkey", "start_stack"]
