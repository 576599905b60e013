"""A table in Markdown. Pure."""

from collections.abc import Sequence


def markdown(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *lines])
