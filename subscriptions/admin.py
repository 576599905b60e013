"""Forms for who wants what. Secrets are in none of it. Pages that tell a story are in deliveries/console."""

from typing import Any

from django.contrib import admin
from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin, StackedInline

from subscriptions.audit import Actor, record
from subscriptions.models import ApiKey, Consumer, Endpoint, EventType, EventTypeVersion


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
        _record(request, "deleted", list(queryset))
        super().delete_queryset(request, queryset)  # type: ignore[misc]


def _record(request: HttpRequest, done: str, objects: list[Any], *, detail: str = "") -> None:
    """`user.created`, `event_type.changed`. Several at once are one entry that names them all."""
    names = [str(getattr(each, "public_id", each)) for each in objects]
    owners = {
        getattr(each, "consumer_id", None) or (each.id if isinstance(each, Consumer) else None) for each in objects
    }
    kind = {EventType: "event_type", ApiKey: "key"}.get(type(objects[0]), type(objects[0])._meta.model_name)
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


class OnlyChanges(Audited, ModelAdmin):
    """Writes the fields that were changed and no others: the engine writes to the same rows meanwhile."""

    show_full_result_count = False

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm[Any], change: bool) -> None:
        if form.changed_data:
            obj.save(update_fields=[*form.changed_data, *self.touched(obj)])

    def touched(self, obj: Any) -> list[str]:
        return []

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Consumer)
class ConsumerAdmin(OnlyChanges):
    list_display = ["uid", "name", "public_id", "created_at"]
    search_fields = ["uid", "name"]
    fields = ["public_id", "uid", "name", "contact_email", "created_at", "deleted_at"]
    readonly_fields = ["public_id", "created_at", "deleted_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(OnlyChanges):
    """`manage.py issue_key` and the API show a new key once; a form would not, so nothing is added here."""

    list_display = ["__str__", "name", "consumer", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = ["role"]
    list_select_related = ["consumer"]
    fields = ["name", "role", "consumer", "owner", "created_at", "expires_at", "revoked_at", "last_used_at"]
    readonly_fields = ["role", "consumer", "owner", "created_at", "last_used_at"]


class VersionInline(StackedInline):
    model = EventTypeVersion
    extra = 0


@admin.register(EventType)
class EventTypeAdmin(Audited, ModelAdmin):
    list_display = ["name", "description", "created_at", "used_at", "archived_at"]
    search_fields = ["name"]
    inlines = [VersionInline]
    readonly_fields = ["created_at", "used_at"]


@admin.register(Endpoint)
class EndpointAdmin(OnlyChanges):
    list_display = ["public_id", "consumer", "url", "status", "max_in_flight", "created_at"]
    list_filter = ["status"]
    list_select_related = ["consumer"]
    search_fields = ["url", "consumer__uid"]
    # The URL only through the API, where the network guard stands; states only through the console's actions.
    readonly_fields = ["public_id", "consumer", "url", "status"]
    fields = [*readonly_fields, "description", "max_in_flight", "rate_limit_per_second", "timeout_seconds"]

    def touched(self, obj: Any) -> list[str]:
        obj.updated_at = timezone.now()
        return ["updated_at"]
