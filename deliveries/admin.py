"""The admin's view of what happened and what is owed. Read-only: history is not edited."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from deliveries.models import Attempt, Delivery, Event


class ReadOnly:
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AttemptInline(ReadOnly, admin.StackedInline[Attempt, Delivery]):
    model = Attempt
    extra = 0
    readonly_fields = fields = (
        "number", "started_at", "duration_ms", "status_code", "error_kind", "error_detail", "url", "request_headers",
        "response_headers", "answer",
    )  # fmt: skip

    @admin.display(description="response body")
    def answer(self, attempt: Attempt) -> str:
        return "" if attempt.response_body is None else bytes(attempt.response_body).decode(errors="replace")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly, admin.ModelAdmin[Delivery]):
    list_display = ["public_id", "event_type", "endpoint_url", "state", "attempt_count", "dead_reason", "due_at"]
    list_filter = ["state"]
    list_select_related = ["event", "endpoint"]
    ordering = ["-id"]
    inlines = [AttemptInline]
    exclude = ["leased_by", "round_base"]

    @admin.display(description="event type")
    def event_type(self, delivery: Delivery) -> str:
        return delivery.event.type

    @admin.display(description="endpoint")
    def endpoint_url(self, delivery: Delivery) -> str:
        return delivery.endpoint.url


@admin.register(Event)
class EventAdmin(ReadOnly, admin.ModelAdmin[Event]):
    list_display = ["public_id", "type", "consumer", "delivery_count", "created_at"]
    list_select_related = ["consumer"]
    ordering = ["-id"]
    exclude = ["body", "xid"]
    readonly_fields = ["content"]

    @admin.display(description="body on the wire")
    def content(self, event: Event) -> str:
        return "" if event.body is None else bytes(event.body).decode()
