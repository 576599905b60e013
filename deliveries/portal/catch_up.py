"""The feed, explained: how a receiver that was away reads what it missed, in a loop that can be copied."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from deliveries.portal.page import render
from subscriptions.models import Consumer


def show(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    feed = request.build_absolute_uri(reverse("feed", args=[str(consumer)]))
    return render(request, consumer, "catch_up.html", title=_("Catch-up"), section="Catch-up", feed=feed)
