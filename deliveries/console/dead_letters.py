"""Dead letters: what died, grouped by its cause, ready to be replayed."""

from django.http import HttpRequest, HttpResponse

from deliveries.browse import criteria
from deliveries.browse.causes import Causes, causes
from deliveries.console.page import render
from deliveries.models import Attempt, Delivery
from deliveries.pages import keyset


def show(request: HttpRequest) -> HttpResponse:
    asked = criteria.read(request.GET)
    if asked.problems:
        found, page = Causes([], 0, False), keyset.ListPage[Delivery]([], None, None)
    else:
        found, page = causes(asked.filter), keyset.deliveries(request, asked.filter)
        _attach_last_attempts(page.rows)
    query = request.GET.copy()
    for name in ("before", "after", "delivery"):
        query.pop(name, None)
    return render(
        request,
        "dead_letters.html",
        title="Dead letters",
        asked=asked,
        causes=found,
        page=page,
        query=query.urlencode(),
        within=[("1h", "last hour"), ("24h", "last 24 hours"), ("7d", "last 7 days"), ("30d", "last 30 days")],
    )


def _attach_last_attempts(deliveries: list[Delivery]) -> None:
    # Delivery by delivery, through the index of its attempts: there are never more than a handful each.
    attempts = Attempt.objects.filter(delivery_id__in=[row.id for row in deliveries])
    found = {
        (each.delivery_id, each.number): each
        for each in attempts.only("delivery_id", "number", "status_code", "error_kind")
    }
    for row in deliveries:
        row.last_attempt = found.get((row.id, row.attempt_count))  # type: ignore[attr-defined]
