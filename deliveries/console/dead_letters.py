"""Dead letters: what died, grouped by its cause, ready to be replayed."""

from django.db.models import F
from django.http import HttpRequest, HttpResponse

from deliveries.console import criteria, groups, keyset, words
from deliveries.console.page import render
from deliveries.models import Attempt, Delivery
from deliveries.send import EXPLANATIONS


def show(request: HttpRequest) -> HttpResponse:
    asked = criteria.read(request.GET)
    if asked.problems:
        found, total, capped = list[groups.Group](), 0, False
        page = keyset.Page[Delivery]([], None, None)
    else:
        found, total, capped = groups.find(asked.filter)
        page = keyset.page(request, asked.filter.matching().select_related("event", "endpoint__consumer"))
        _attach_last_attempts(page.rows)
    query = request.GET.copy()
    for name in ("before", "after", "delivery"):
        query.pop(name, None)
    return render(
        request,
        "dead_letters.html",
        title="Dead letters",
        asked=asked,
        groups=found,
        total=total,
        capped=capped,
        page=page,
        query=query.urlencode(),
        reasons=[(name, advice.title) for name, advice in words.DEAD.items()],
        errors=["http_500", "http_502", "http_503", "http_404", "http_401", "http_400", *EXPLANATIONS, "worker_lost"],
        within=[("1h", "last hour"), ("24h", "last 24 hours"), ("7d", "last 7 days"), ("30d", "last 30 days")],
    )


def _attach_last_attempts(deliveries: list[Delivery]) -> None:
    attempts = (
        Attempt.objects.filter(delivery_id__in=[row.id for row in deliveries], number=F("delivery__attempt_count"))
        .only("delivery_id", "status_code", "error_kind", "started_at")
        .in_bulk(field_name="id")
    )
    last = {attempt.delivery_id: attempt for attempt in attempts.values()}
    for row in deliveries:
        row.last_attempt = last.get(row.id)  # type: ignore[attr-defined]
