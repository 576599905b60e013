"""Who did what, to how many, and why."""

from django.http import HttpRequest, HttpResponse

from deliveries.console import keyset
from deliveries.console.page import render
from deliveries.models import AuditEntry


def show(request: HttpRequest) -> HttpResponse:
    actor, target = request.GET.get("actor", "").strip(), request.GET.get("target", "").strip()
    rows = AuditEntry.objects.all()
    if actor:
        rows = rows.filter(actor=actor)
    if target:
        rows = rows.filter(target=target)
    return render(request, "audit.html", title="Audit log", page=keyset.page(request, rows), actor=actor, target=target)
