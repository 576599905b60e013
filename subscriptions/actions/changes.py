"""Which fields a change changes: an entry names them, and a change of nothing leaves none."""

from collections.abc import Mapping
from typing import Any


def differing(before: Any, changes: Mapping[str, Any]) -> list[str]:
    """The names of the given fields that are not what they were. Those that cannot be read count as changed."""
    unknown = object()
    return [name for name, value in changes.items() if getattr(before, name, unknown) != value]
