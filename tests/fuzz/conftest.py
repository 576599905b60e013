"""Fixtures of the fuzzer's short run."""

from tests.stack import start_stack

__all__ = ["start_stack"]
