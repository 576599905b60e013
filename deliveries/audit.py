"""Every deed by hand leaves an entry: who, what, to what, to how many, why. Written in the deed's own transaction."""

from deliveries.models import AuditEntry


def record(*, actor: str, action: str, target: str = "", count: int = 1, reason: str = "") -> None:
    AuditEntry.objects.create(actor=actor, action=action, target=target, count=count, reason=reason[:500])
