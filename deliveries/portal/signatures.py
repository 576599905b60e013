"""The signature debugger: paste a request, the secret and what your code computed, and hear which mistake it is.

What is pasted lives for this one answer: it is not stored, not logged, and the secret is not even shown again.
"""

import time

from django.http import HttpRequest, HttpResponse

from deliveries.endpoint_tests import test_event, verify
from deliveries.portal import endpoints
from deliveries.portal.page import render
from subscriptions.models import Consumer, Endpoint

# As much as the largest event takes (characters).
_LONGEST = 300_000


def show(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    own = list(Endpoint.objects.filter(consumer=consumer, deleted_at__isnull=True).order_by("id"))
    posted = {name: request.POST.get(name, "")[:_LONGEST] for name in ("headers", "body", "computed", "endpoint")}
    explanation = None
    if request.method == "POST":
        chosen = endpoints.find(consumer, posted["endpoint"])
        explanation = verify.explain(
            headers=posted["headers"],
            body=posted["body"],
            secret=request.POST.get("secret", "")[:_LONGEST],
            computed=posted["computed"],
            own_secrets=test_event.signer(chosen).secrets if chosen else (),
            now=time.time(),
        )
    return render(
        request,
        consumer,
        "signatures.html",
        title="Signature debugger",
        section="Debugger",
        own=own,
        posted=posted,
        explanation=explanation,
    )
