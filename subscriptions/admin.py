"""Forms for who wants what. Secrets are in none of it. Pages that tell a story are in deliveries/console."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin, StackedInline

from subscriptions import consumers, event_types, ids
from subscriptions.actions import keys
from subscriptions.audit import Actor
from subscriptions.audited_forms import Audited
from subscriptions.models import ApiKey, Consumer, Endpoint, EventType, EventTypeVersion


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


class ConsumerForm(ModelForm[Consumer]):
    """As strict as the API: a uid is part of addresses, and never looks like an id of ours."""

    def clean_uid(self) -> str | None:
        uid = self.cleaned_data["uid"] or None
        if uid is not None and not consumers.is_uid(uid):
            raise ValidationError(consumers.UID_RULE)
        return uid


@admin.register(Consumer)
class ConsumerAdmin(OnlyChanges):
    form = ConsumerForm
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
    # Its end and what it may do hold for everything made with it, so no field sets them: the action revokes all of it.
    readonly_fields = [
        "public_id", "role", "consumer", "owner", "scopes", "issued_by_key", "created_at", "expires_at", "revoked_at",
        "last_used_at",
    ]  # fmt: skip
    fields = ["name", *readonly_fields]
    actions = ["revoke"]

    @admin.display(description="Issued by")
    def issued_by_key(self, key: ApiKey) -> str:
        return ids.show("key", key.issued_by) if key.issued_by else "a command"

    @admin.action(description="Revoke, with everything made with it", permissions=["change"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiKey]) -> None:
        who = Actor.of_user(request.user.get_username())
        revoked = sum(keys.revoke(key_id=key.id, consumer=None, actor=who, why="") for key in chosen)
        self.message_user(request, f"Revoked: {revoked}, with what was made with them.")


class VersionForm(ModelForm[EventTypeVersion]):
    """As strict as the API: a schema that cannot be checked would refuse every event of its type."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                event_types.check_schemas([{"schema": cleaned.get("schema"), "example": cleaned.get("example")}])
            except event_types.SchemaInvalid as error:
                raise ValidationError(f"{error} ({error.pointer.removeprefix('/versions/0')})") from None
        return cleaned


class VersionInline(StackedInline):
    model = EventTypeVersion
    form = VersionForm
    extra = 0


@admin.register(EventType)
class EventTypeAdmin(Audited, ModelAdmin):
    list_display = ["name", "description", "declared_at", "used_at", "deprecated_at", "archived_at"]
    search_fields = ["name"]
    inlines = [VersionInline]
    readonly_fields = ["created_at", "used_at", "declared_at"]

    def save_model(self, request: HttpRequest, obj: EventType, form: ModelForm[EventType], change: bool) -> None:
        """Who fills in its entry declares it."""
        obj.declared_at = obj.declared_at or timezone.now()
        super().save_model(request, obj, form, change)


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
