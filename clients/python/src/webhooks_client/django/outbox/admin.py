from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from webhooks_client.django.outbox.metrics import backlog
from webhooks_client.django.outbox.models import OutboxEvent, OutboxState

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[OutboxEvent]
else:
    ModelAdmin = admin.ModelAdmin


@admin.register(OutboxEvent)
class OutboxEventAdmin(ModelAdmin):
    """To look at, and to send refused ones again. Nothing here can be edited: what was emitted has happened."""

    list_display = ("id", "state", "type", "consumer", "event_id", "ordering_key", "created_at", "settled_at")
    list_filter = ("state", "type")
    search_fields = ("event_id", "consumer")
    ordering = ("-id",)
    actions = ("send_again",)
    show_full_result_count = False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        now = backlog()
        title = f"{now.pending} pending (the oldest for {now.oldest_seconds:.0f} s), {now.refused} refused"
        return super().changelist_view(request, {**(extra_context or {}), "title": title})

    @admin.action(description="Send refused events again", permissions=["change"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[OutboxEvent]) -> None:
        refused = OutboxEvent.objects.filter(pk__in=queryset.values("pk"), state=OutboxState.REFUSED)
        count = refused.update(state=OutboxState.PENDING, settled_at=None, problem=None)
        self.message_user(request, f"{count} will be sent again.", messages.SUCCESS)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [field.name for field in OutboxEvent._meta.fields]
