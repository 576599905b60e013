"""What the audit log holds, for tests that count on every line of it."""

from typing import NamedTuple

from subscriptions.models import AuditEntry


class Entry(NamedTuple):
    actor: str
    action: str
    target: str
    how_many: int
    why: str


def entries() -> list[Entry]:
    """Oldest first."""
    rows = AuditEntry.objects.order_by("id")
    return [Entry(*row) for row in rows.values_list("actor", "action", "target", "count", "why")]
