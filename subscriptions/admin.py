"""The admin's view of who wants what. Secrets are in none of it."""

from django.contrib import admin
from django.http import HttpRequest

from subscriptions.models import ApiKey, Consumer, Endpoint, EventType, EventTypeVersion


@admin.register(Consumer)
class ConsumerAdmin(admin.ModelAdmin[Consumer]):
    list_display = ["uid", "name", "public_id", "created_at"]
    search_fields = ["uid", "name"]
    readonly_fields = ["public_id", "created_at", "deleted_at"]
    show_full_result_count = False


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin[ApiKey]):
    list_display = ["__str__", "name", "consumer", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = ["role"]
    list_select_related = ["consumer"]
    fields = ["name", "role", "consumer", "owner", "created_at", "expires_at", "revoked_at", "last_used_at"]
    readonly_fields = ["role", "consumer", "owner", "created_at", "last_used_at"]
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """`manage.py issue_key` and the API show a new key once; a form would not."""
        return False


class VersionInline(admin.StackedInline[EventTypeVersion, EventType]):
    model = EventTypeVersion
    extra = 0


@admin.register(EventType)
class EventTypeAdmin(admin.ModelAdmin[EventType]):
    list_display = ["name", "description", "created_at", "used_at", "archived_at"]
    search_fields = ["name"]
    inlines = [VersionInline]
    readonly_fields = ["created_at", "used_at"]


@admin.register(Endpoint)
class EndpointAdmin(admin.ModelAdmin[Endpoint]):
    list_display = ["public_id", "consumer", "url", "status", "event_types", "max_in_flight", "created_at"]
    list_filter = ["status"]
    list_select_related = ["consumer"]
    search_fields = ["url", "consumer__uid"]
    show_full_result_count = False
    # No secret, no header value, and the URL only through the API, where the network guard stands.
    readonly_fields = (
        "public_id", "consumer", "url", "event_types", "header_names", "signature_scheme",
        "payload_mode", "ordered", "rate_limit_per_second", "retry_schedule", "status", "disabled_reason",
        "created_at", "updated_at", "deleted_at",
    )  # fmt: skip
    fields = (*readonly_fields, "description", "max_in_flight", "timeout_seconds")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Endpoint | None = None) -> bool:
        return False
