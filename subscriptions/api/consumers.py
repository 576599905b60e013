"""consumers/: the tenants, and links to their portal. Their keys are in keys.py."""

from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions import consumers
from subscriptions.access import key_tree
from subscriptions.access.scopes import CONSUMERS_READ, CONSUMERS_WRITE, PORTAL_LINKS_WRITE
from subscriptions.actions import consumers as actions
from subscriptions.actions import portal as portal_actions
from subscriptions.api.authentication import actor, caller, key_refused
from subscriptions.api.branding import BrandingIn
from subscriptions.api.describe import Operation, Page, id_of
from subscriptions.api.fields import Metadata, Text, Why, WhyIn
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.views import (
    EVERYONE,
    PRODUCERS,
    ApiView,
    body_object,
    consumer_or_404,
    fields_and_why,
    why_of_delete,
)
from subscriptions.consumers import UID_PATTERN, UID_RULE, is_uid
from subscriptions.models import Consumer


class ConsumerOut(TypedDict):
    """A tenant: it owns endpoints and keys, and events are addressed to it."""

    id: Annotated[str, id_of("con"), "Ours."]
    uid: Annotated[str | None, "Yours. Where a consumer is asked for, either will do."]
    name: Annotated[str, "For people."]
    contact_email: Annotated[str, "Told when an endpoint fails for long, is disabled, or works again."]
    metadata: Annotated[dict[str, str], "As you sent it."]
    created_at: datetime


def show_consumer(consumer: Consumer) -> ConsumerOut:
    return {
        "id": consumer.public_id,
        "uid": consumer.uid,
        "name": consumer.name,
        "contact_email": consumer.contact_email,
        "metadata": consumer.metadata,
        "created_at": consumer.created_at,
    }


class ConsumerIn(serializers.Serializer[Any]):
    """A consumer as you want it."""

    uid = Text(
        required=False,
        allow_null=True,
        max_length=255,
        keywords={"pattern": UID_PATTERN},
        help_text=f"Your own name for it, unique. {UID_RULE}",
    )
    name = Text(required=False, allow_blank=True, max_length=255, help_text="For people.")
    contact_email = serializers.EmailField(
        required=False, allow_blank=True, max_length=254, help_text="Who is told about the health of its endpoints."
    )
    metadata = Metadata(required=False)
    why = Why()

    def validate_uid(self, uid: str | None) -> str | None:
        if uid is not None and not is_uid(uid):
            raise serializers.ValidationError(UID_RULE)
        return uid


class PortalLinkIn(WhyIn):
    """Whose portal it opens. The body may be left out."""

    branding = BrandingIn(required=False, help_text="Where it should say other than the deployment's settings.")


class PortalLinkOut(TypedDict):
    """A way into a consumer's portal."""

    url: Annotated[str, {"format": "uri"}, "Whoever opens it first is let in. It works once."]
    expires_at: Annotated[datetime, "Until when it can be opened."]


class ConsumerList(ApiView):
    roles = {"GET": PRODUCERS, "POST": PRODUCERS}
    scopes = {"GET": CONSUMERS_READ, "POST": CONSUMERS_WRITE}
    parameters = {"GET": PAGE}
    fields = {"POST": ConsumerIn}
    operations = {
        "GET": Operation("list_consumers", Page[ConsumerOut]),
        "POST": Operation("create_consumer", ConsumerOut, status=201, problems=("uid_taken",)),
    }

    def get(self, request: Request) -> Response:
        """List consumers, newest first."""
        rows, following = page(request, Consumer.objects.filter(deleted_at__isnull=True))
        return Response({"results": [show_consumer(row) for row in rows], "next": following})

    def post(self, request: Request) -> HttpResponse:
        """Create a consumer."""
        fields, why = fields_and_why(ConsumerIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            with _uid_conflict():
                made = actions.create(**{"uid": None, **fields}, actor=actor(request), why=why)
            return 201, show_consumer(_reloaded(made))

        return self.once(request, work)


class ConsumerDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": PRODUCERS, "DELETE": PRODUCERS}
    scopes = {"GET": CONSUMERS_READ, "PATCH": CONSUMERS_WRITE, "DELETE": CONSUMERS_WRITE}
    fields = {"PATCH": ConsumerIn}
    operations = {
        "GET": Operation("get_consumer", ConsumerOut),
        "PATCH": Operation("update_consumer", ConsumerOut, problems=("uid_taken",)),
        "DELETE": Operation("delete_consumer", status=204),
    }

    def get(self, request: Request, consumer: str) -> Response:
        """Read a consumer. A consumer's key reads its own."""
        return Response(show_consumer(consumer_or_404(request, consumer)))

    def patch(self, request: Request, consumer: str) -> Response:
        """Change a consumer. Fields that are not sent stay as they are."""
        found = consumer_or_404(request, consumer)
        fields, why = fields_and_why(ConsumerIn(data=body_object(request), partial=True))
        with _uid_conflict():
            updated = actions.update(found, fields, actor=actor(request), why=why)
        if updated is None:
            raise not_found("consumer")
        return Response(show_consumer(updated))

    def delete(self, request: Request, consumer: str) -> Response:
        """Delete a consumer.

        Its keys stop working, its endpoints receive nothing more, and its uid is free again. History stays.
        """
        found = consumer_or_404(request, consumer)
        actions.delete(found, actor=actor(request), why=why_of_delete(request))
        return Response(status=204)


class PortalLink(ApiView):
    roles = {"POST": PRODUCERS}
    scopes = {"POST": PORTAL_LINKS_WRITE}
    fields = {"POST": PortalLinkIn}
    operations = {"POST": Operation("create_portal_link", PortalLinkOut, status=201)}

    def post(self, request: Request, consumer: str) -> HttpResponse:
        """Make a link into a consumer's portal.

        Whoever opens it first is let in, for one session. It ends with the key that made it.
        """
        found = consumer_or_404(request, consumer)
        fields, why = fields_and_why(PortalLinkIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                token, expires_at = portal_actions.create_link(
                    found,
                    minutes=settings.PORTAL_LINK_MINUTES,
                    key_id=caller(request).key_id,
                    branding=dict(fields.get("branding", {})),
                    actor=actor(request),
                    why=why,
                )
            except key_tree.KeyEnded:
                raise key_refused() from None
            url = request.build_absolute_uri(reverse("portal:enter", args=[token]))
            return 201, {"url": url, "expires_at": expires_at}

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
