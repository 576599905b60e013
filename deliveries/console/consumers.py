"""Consumers: all of them, and one with its endpoints, its traffic and its keys; its names, with their form."""

from collections.abc import Mapping

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from deliveries.browse.causes import causes
from deliveries.browse.filter import Filter
from deliveries.console.endpoint_list import list_rows
from deliveries.console.page import actor_of, back_to, first_error, missing, render, why_of
from deliveries.health.models import Hold
from deliveries.models import Event
from deliveries.pages import chart, keyset
from deliveries.sql import clock
from deliveries.statistics import figures
from subscriptions import consumers, ids
from subscriptions.actions import consumers as actions
from subscriptions.api.consumers import ConsumerIn
from subscriptions.models import ApiKey, AuditEntry, Consumer, Endpoint


def index(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()
    rows = Consumer.objects.filter(deleted_at__isnull=True).annotate(
        endpoint_count=Count("endpoints", filter=Q(endpoints__deleted_at__isnull=True)),
        failing_count=Count("endpoints", filter=Q(endpoints__lane__failure_count__gt=0, endpoints__deleted_at=None)),
    )
    if text:
        rows = rows.filter(Q(uid__icontains=text) | Q(name__icontains=text))
    return render(request, "consumers.html", title="Consumers", page=keyset.page(request, rows), q=text)


def show(request: HttpRequest, public_id: str) -> HttpResponse:
    uuid = ids.parse("con", public_id)
    consumer = Consumer.objects.filter(id=uuid).first() if uuid else None
    if consumer is None:
        return missing(request, "consumer")
    span = figures.RANGES.get(request.GET.get("range", ""), figures.RANGES["24h"])
    entries = figures.series(span, consumer.id)
    total = figures.total(entries)
    dead = causes(Filter(consumer_id=consumer.id))
    living = Endpoint.objects.select_related("lane").filter(consumer=consumer, deleted_at__isnull=True)
    return render(
        request,
        "consumer.html",
        title="Consumer",
        consumer=consumer,
        span=span,
        ranges=figures.RANGES.values(),
        total=total,
        p50=total.latency(0.5),
        p95=total.latency(0.95),
        p99=total.latency(0.99),
        traffic=chart.traffic(entries, span),
        times=chart.times(entries, span, of="latency"),
        endpoints=list_rows(living.order_by("id")[:200], span=span, now=clock.now()),
        keys=ApiKey.objects.filter(consumer=consumer).order_by("-id")[:50],
        newest=Event.objects.filter(consumer=consumer).defer("body").order_by("-xid", "-id")[:10],
        held=Hold.objects.filter(consumer=consumer).first(),
        dead=dead,
        entries=AuditEntry.objects.filter(consumer_id=consumer.id).order_by("-id")[:10],
    )


def edit(request: HttpRequest, public_id: str) -> HttpResponse:
    consumer = consumers.find(public_id)
    if consumer is None:
        return missing(request, "consumer")
    typed = {"uid": consumer.uid or "", "name": consumer.name, "contact_email": consumer.contact_email}
    return _form(request, consumer, typed)


def save(request: HttpRequest, public_id: str) -> HttpResponse:
    consumer = consumers.find(public_id)
    if consumer is None:
        return missing(request, "consumer")
    typed = {name: request.POST.get(name, "").strip() for name in ("uid", "name", "contact_email", "why")}
    given = {"uid": typed["uid"] or None, "name": typed["name"], "contact_email": typed["contact_email"]}
    shape = ConsumerIn(data=given, partial=True)
    if not shape.is_valid():
        return _form(request, consumer, typed, problem=first_error(shape.errors))
    try:
        saved = actions.update(consumer, dict(shape.validated_data), actor=actor_of(request), why=why_of(request))
    except consumers.UidTaken:
        return _form(request, consumer, typed, problem="Another consumer has this uid.")
    if saved is None:
        return missing(request, "consumer")
    return back_to(request, reverse("admin:consumer", args=[consumer.public_id]), done="Saved.")


def _form(request: HttpRequest, consumer: Consumer, typed: Mapping[str, str], *, problem: str = "") -> HttpResponse:
    return render(
        request, "consumer_edit.html", title="Edit a consumer", consumer=consumer, typed=typed, problem=problem,
        status=400 if problem else 200,
    )  # fmt: skip
