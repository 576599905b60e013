"""Kill switches: hold everything, or one consumer. One endpoint is paused on its own page."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from deliveries.actions import holds
from deliveries.console.page import actor_of, back_to, missing, render, why_of
from deliveries.health.models import Hold
from subscriptions import consumers
from subscriptions.models import AuditEntry, Endpoint, EndpointStatus


def show(request: HttpRequest) -> HttpResponse:
    stopped = Endpoint.objects.filter(deleted_at__isnull=True).exclude(status=EndpointStatus.ACTIVE)
    holds = list(Hold.objects.select_related("consumer").order_by("-created_at"))
    return render(
        request,
        "switches.html",
        title="Kill switches",
        everything=next((each for each in holds if each.consumer is None), None),
        consumer_holds=[each for each in holds if each.consumer is not None],
        stopped=stopped.select_related("consumer").order_by("-updated_at")[:50],
        entries=AuditEntry.objects.filter(action__startswith="hold.").order_by("-id")[:10],
    )


def turn(request: HttpRequest, turn: str) -> HttpResponse:
    here, name, why = reverse("admin:switches"), request.POST.get("consumer", "").strip(), why_of(request)
    if turn not in ("on", "off"):
        return missing(request, "switch")
    consumer = consumers.find(name) if name else None
    if consumer is None and request.POST.get("scope") != "everything":
        return back_to(request, here, refused=f"There is no consumer {name or 'of that name'}.")
    if turn == "on" and not why:
        return back_to(request, here, refused="Say why: everybody on call sees it in the banner.")
    run = holds.put_on if turn == "on" else holds.take_off
    if not run(consumer, actor=actor_of(request), why=why):
        return back_to(request, here, refused=f"The switch was {turn} already.")
    whose = str(consumer) if consumer else "Everything"
    done = "is held. What is in flight ends; nothing new goes out." if turn == "on" else "goes out again."
    return back_to(request, here, done=f"{whose} {done}")
