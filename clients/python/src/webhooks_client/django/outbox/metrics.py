"""The backlog in numbers: for Prometheus (`path("metrics/outbox", metrics.view)`), for the admin, for an alarm."""

from dataclasses import dataclass

from django.db.models import Count, Min
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from webhooks_client.django.outbox.models import OutboxEvent, OutboxState


@dataclass(frozen=True, slots=True)
class Backlog:
    pending: int
    # Age of the oldest pending event; 0 where there is none.
    oldest_seconds: float
    refused: int


def backlog(*, using: str = "default") -> Backlog:
    events = OutboxEvent.objects.using(using)
    found = events.filter(state=OutboxState.PENDING).aggregate(pending=Count("id"), oldest=Min("created_at"))
    oldest = (timezone.now() - found["oldest"]).total_seconds() if found["oldest"] else 0.0
    return Backlog(found["pending"], max(0.0, oldest), events.filter(state=OutboxState.REFUSED).count())


def prometheus(*, using: str = "default") -> str:
    now = backlog(using=using)
    values = {
        "webhooks_outbox_pending": now.pending,
        "webhooks_outbox_oldest_seconds": now.oldest_seconds,
        "webhooks_outbox_refused": now.refused,
    }
    return "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in values.items())


def view(request: HttpRequest) -> HttpResponse:
    """Put it behind whatever guards your other metrics."""
    return HttpResponse(prometheus(), content_type="text/plain; version=0.0.4; charset=utf-8")
