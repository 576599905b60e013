"""Django's own forms in the audit log: written from the hooks that Django offers for a log of its own."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest

from subscriptions.audit import Actor, record
from subscriptions.models import ApiKey, Consumer, EventType


class Audited:
    """Beside a ModelAdmin: what its forms change is in the audit log, in the transaction of the form."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _record(request, "created", [obj])
        return super().log_addition(request, obj, message)  # type: ignore[misc]

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        # A form that was saved as it was has nothing to tell.
        if message:
            _record(request, "changed", [obj], detail=_told(message))
        return super().log_change(request, obj, message)  # type: ignore[misc]

    @transaction.atomic
    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        _record(request, "deleted", [obj])
        super().delete_model(request, obj)  # type: ignore[misc]

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        if chosen := list(queryset):
            _record(request, "deleted", chosen)
        super().delete_queryset(request, queryset)  # type: ignore[misc]


def _record(request: HttpRequest, done: str, objects: list[Any], *, detail: str = "") -> None:
    """`user.created`, `event_type.changed`. Several at once are one entry that names them all."""
    names = [str(getattr(each, "public_id", each)) for each in objects]
    owners = {each.id if isinstance(each, Consumer) else getattr(each, "consumer_id", None) for each in objects}
    model = type(objects[0])
    kind = {EventType: "event_type", ApiKey: "key"}.get(model, model._meta.model_name)
    record(
        actor=Actor.of_user(request.user.get_username()),
        action=f"{kind}.{done}",
        target=names[0] if len(names) == 1 else "",
        consumer=owners.pop() if len(owners) == 1 else None,
        count=len(objects),
        detail=detail or (", ".join(names) if len(names) > 1 else ""),
    )


def _told(message: Any) -> str:
    """The names of the fields, from Django's own account of what a form changed."""
    if isinstance(message, str):
        return message
    return ", ".join(
        name for part in message for each in part.values() for name in each.get("fields", [each.get("object", "")])
    )
