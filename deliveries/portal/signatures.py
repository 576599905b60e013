"""The signature debugger: paste a request, the secret and what your code computed, and hear which mistake it is.

What is pasted lives for this one answer: it is not stored, not logged, and the secret is not even shown again.
"""

import time

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from deliveries.endpoint_tests import test_event, verify
from deliveries.models import Attempt
from deliveries.pages import story
from deliveries.portal import endpoints
from deliveries.portal.page import render
from subscriptions import ids
from subscriptions.models import Consumer, Endpoint
from subscriptions.signing import schemes

# As much as the largest event takes (characters).
_LONGEST = 300_000


def show(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    own = list(Endpoint.objects.filter(consumer=consumer, deleted_at__isnull=True).order_by("id"))
    names = ("headers", "body", "computed", "endpoint")
    posted = {name: request.POST.get(name, "")[:_LONGEST] for name in names}
    if request.method != "POST" and (delivery := request.GET.get("delivery")):
        posted |= _of_delivery(consumer, delivery)
    explanation = None
    if request.method == "POST":
        chosen = endpoints.find(consumer, posted["endpoint"])
        explanation = verify.explain(
            headers=posted["headers"],
            body=posted["body"],
            secret=request.POST.get("secret", "")[:_LONGEST],
            computed=posted["computed"],
            own_secrets=test_event.signer(chosen).secrets if chosen else (),
            recipe=schemes.recipe_of(chosen.signature_scheme) if chosen else None,
            url=chosen.url if chosen else "",
            now=time.time(),
        )
    return render(
        request,
        consumer,
        "signatures.html",
        title=_("Signature debugger"),
        section="Debugger",
        own=own,
        posted=posted,
        explanation=explanation,
    )


def _of_delivery(consumer: Consumer, public_id: str) -> dict[str, str]:
    """A delivery's last request, as the form takes it; nothing for one that is not the consumer's."""
    uuid = ids.parse("dlv", public_id)
    if uuid is None:
        return {}
    owned = Attempt.objects.filter(delivery_id=uuid, delivery__endpoint__consumer=consumer)
    last = owned.select_related("delivery__endpoint", "delivery__event").order_by("-number").first()
    if last is None:
        return {}
    endpoint, event = last.delivery.endpoint, last.delivery.event
    sent = story.sent_body(bytes(event.body) if event.body is not None else None, endpoint)
    ours = {name.lower() for name in schemes.recipe_of(endpoint.signature_scheme).header_names}
    headers = [
        f"{name}: {value}"
        for name, value in last.request_headers
        if str(name).startswith("webhook-") or str(name).lower() in ours
    ]
    return {
        "headers": "\n".join(headers),
        "body": (sent or b"").decode(errors="replace"),
        "endpoint": endpoint.public_id,
    }
