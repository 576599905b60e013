"""event-types/: the catalogue."""

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions import event_types
from subscriptions.access.scopes import EVENT_TYPES_READ, EVENT_TYPES_WRITE
from subscriptions.actions import event_types as actions
from subscriptions.api.authentication import actor
from subscriptions.api.pagination import PAGE, flag_of, invalid_cursor, limit_of, next_url, read_cursor
from subscriptions.api.problems import Problem, not_found
from subscriptions.api.serializers import EventTypeIn, NewEventTypeIn, show_event_type
from subscriptions.api.views import (
    EVERYONE,
    PRODUCERS,
    ApiView,
    body_object,
    fields_and_why,
    setting_error,
    why_of_delete,
)
from subscriptions.models import EventType


class EventTypeList(ApiView):
    roles = {"GET": EVERYONE, "POST": PRODUCERS}
    scopes = {"GET": EVENT_TYPES_READ, "POST": EVENT_TYPES_WRITE}
    parameters = {"GET": (*PAGE, "archived")}
    fields = {"POST": NewEventTypeIn}

    def get(self, request: Request) -> Response:
        """By name. Archived ones are left out unless asked for with ?archived=true."""
        limit = limit_of(request)
        types = EventType.objects.prefetch_related("versions").order_by("name")
        if not flag_of(request, "archived"):
            types = types.filter(archived_at__isnull=True)
        cursor = read_cursor(request)
        if cursor is not None:
            if len(cursor) != 1 or not isinstance(cursor[0], str) or "\0" in cursor[0]:
                raise invalid_cursor()
            types = types.filter(name__gt=cursor[0])
        rows = list(types[: limit + 1])
        following = next_url(request, [rows[limit - 1].name]) if len(rows) > limit else None
        return Response({"results": [show_event_type(row) for row in rows[:limit]], "next": following})

    def post(self, request: Request) -> HttpResponse:
        fields, why = fields_and_why(NewEventTypeIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                return 201, show_event_type(actions.create(**fields, actor=actor(request), why=why))
            except event_types.NameTaken:
                raise Problem(409, "event_type_exists", "The catalogue has an event type of this name.") from None
            except event_types.SchemaInvalid as error:
                raise setting_error(error.pointer, str(error)) from None

        return self.once(request, work)


class EventTypeDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": PRODUCERS, "DELETE": PRODUCERS}
    scopes = {"GET": EVENT_TYPES_READ, "PATCH": EVENT_TYPES_WRITE, "DELETE": EVENT_TYPES_WRITE}
    fields = {"PATCH": EventTypeIn}

    def get(self, request: Request, name: str) -> Response:
        return Response(show_event_type(_found(name)))

    def patch(self, request: Request, name: str) -> Response:
        found = _found(name)
        fields, why = fields_and_why(EventTypeIn(data=body_object(request), partial=True))
        if fields.get("name", found.name) != found.name:
            raise setting_error("/name", "An event type keeps its name. Create another one, and archive this one.")
        try:
            return Response(show_event_type(actions.update(found, fields, actor=actor(request), why=why)))
        except event_types.SchemaInvalid as error:
            raise setting_error(error.pointer, str(error)) from None

    def delete(self, request: Request, name: str) -> Response:
        """204. A type in use is archived instead of deleted; reading it says so."""
        actions.delete(_found(name), actor=actor(request), why=why_of_delete(request))
        return Response(status=204)


def _found(name: str) -> EventType:
    found = event_types.find(name)
    if found is None:
        raise not_found("event type")
    return found
