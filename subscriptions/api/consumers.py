"""consumers/ and what hangs below one: its endpoints and links to its portal. Its keys are in keys.py."""

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions import consumers, endpoints
from subscriptions.access import key_tree
from subscriptions.access.scopes import (
    CONSUMERS_READ,
    CONSUMERS_WRITE,
    ENDPOINTS_READ,
    ENDPOINTS_WRITE,
    PORTAL_LINKS_WRITE,
)
from subscriptions.actions import consumers as consumer_actions
from subscriptions.actions import endpoints as endpoint_actions
from subscriptions.actions import portal as portal_actions
from subscriptions.api.authentication import actor, caller, key_refused
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.serializers import (
    ConsumerIn,
    EndpointIn,
    WhyIn,
    show_consumer,
    show_endpoint,
)
from subscriptions.api.views import (
    EVERYONE,
    PRODUCERS,
    ApiView,
    body_object,
    consumer_or_404,
    fields_and_why,
    why_of_delete,
)
from subscriptions.models import Consumer, Endpoint


class ConsumerList(ApiView):
    roles = {"GET": PRODUCERS, "POST": PRODUCERS}
    scopes = {"GET": CONSUMERS_READ, "POST": CONSUMERS_WRITE}
    parameters = {"GET": PAGE}
    fields = {"POST": ConsumerIn}

    def get(self, request: Request) -> Response:
        rows, following = page(request, Consumer.objects.filter(deleted_at__isnull=True))
        return Response({"results": [show_consumer(row) for row in rows], "next": following})

    def post(self, request: Request) -> HttpResponse:
        fields, why = fields_and_why(ConsumerIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            with _uid_conflict():
                made = consumer_actions.create(**{"uid": None, **fields}, actor=actor(request), why=why)
            return 201, show_consumer(_reloaded(made))

        return self.once(request, work)


class ConsumerDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": PRODUCERS, "DELETE": PRODUCERS}
    scopes = {"GET": CONSUMERS_READ, "PATCH": CONSUMERS_WRITE, "DELETE": CONSUMERS_WRITE}
    fields = {"PATCH": ConsumerIn}

    def get(self, request: Request, consumer: str) -> Response:
        return Response(show_consumer(consumer_or_404(request, consumer)))

    def patch(self, request: Request, consumer: str) -> Response:
        found = consumer_or_404(request, consumer)
        fields, why = fields_and_why(ConsumerIn(data=body_object(request), partial=True))
        with _uid_conflict():
            updated = consumer_actions.update(found, fields, actor=actor(request), why=why)
        if updated is None:
            raise not_found("consumer")
        return Response(show_consumer(updated))

    def delete(self, request: Request, consumer: str) -> Response:
        found = consumer_or_404(request, consumer)
        consumer_actions.delete(found, actor=actor(request), why=why_of_delete(request))
        return Response(status=204)


class PortalLink(ApiView):
    roles = {"POST": PRODUCERS}
    scopes = {"POST": PORTAL_LINKS_WRITE}
    fields = {"POST": WhyIn}

    def post(self, request: Request, consumer: str) -> HttpResponse:
        """201 with a link that lets whoever opens it first into this consumer's portal."""
        found = consumer_or_404(request, consumer)
        _, why = fields_and_why(WhyIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                token, expires_at = portal_actions.create_link(
                    found,
                    minutes=settings.PORTAL_LINK_MINUTES,
                    key_id=caller(request).key_id,
                    actor=actor(request),
                    why=why,
                )
            except key_tree.KeyEnded:
                raise key_refused() from None
            url = request.build_absolute_uri(reverse("portal:enter", args=[token]))
            return 201, {"url": url, "expires_at": expires_at}

        return self.once(request, work)


class EndpointList(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}
    scopes = {"GET": ENDPOINTS_READ, "POST": ENDPOINTS_WRITE}
    parameters = {"GET": PAGE}
    fields = {"POST": EndpointIn}

    def get(self, request: Request, consumer: str) -> Response:
        found = consumer_or_404(request, consumer)
        living = Endpoint.objects.select_related("consumer").filter(consumer=found, deleted_at__isnull=True)
        rows, following = page(request, living)
        return Response({"results": [show_endpoint(row) for row in rows], "next": following})

    def post(self, request: Request, consumer: str) -> HttpResponse:
        found = consumer_or_404(request, consumer)
        fields, why = fields_and_why(EndpointIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                endpoint, secret = endpoint_actions.create(consumer=found, **fields, actor=actor(request), why=why)
            except endpoints.TooManyEndpoints:
                raise Problem(
                    409, "too_many_endpoints", "This consumer has as many endpoints as it may have. Delete one first."
                ) from None
            except endpoints.TooManyNewEndpoints:
                raise Problem(
                    429,
                    "too_many_new_endpoints",
                    "This consumer has made as many endpoints as it may within a day. Change one instead, or wait.",
                    headers={"Retry-After": "3600"},
                ) from None
            return 201, {**show_endpoint(endpoint), "secret": secret}

        return self.once(request, work)


class _uid_conflict:
    """Turns a taken uid into a 409."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, consumers.UidTaken):
            raise Problem(409, "uid_taken", "Another consumer has this uid.") from None


def _reloaded(consumer: Consumer) -> Consumer:
    consumer.refresh_from_db()
    return consumer
