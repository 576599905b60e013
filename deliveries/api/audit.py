"""audit/: who changed what, to how many, and why. For operators."""

from datetime import datetime
from typing import Annotated, TypedDict
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.api.events import time_of
from subscriptions import ids
from subscriptions.access.scopes import AUDIT_READ
from subscriptions.api.describe import Operation, Page, Parameter, choices, id_of
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.views import ApiView, consumer_or_404
from subscriptions.audit import Wanted, entries
from subscriptions.models import ActorKind, AuditEntry, Role

_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}


class AuditEntryOut(TypedDict):
    """Somebody changed something."""

    id: Annotated[str, id_of("aud")]
    at: datetime
    actor: Annotated[str, "Who, for people."]
    actor_kind: Annotated[str, choices(*ActorKind.values)]
    actor_id: Annotated[str, "A user's name, `vis_…`, `key_…` or a command's name."]
    action: Annotated[str, "What was done: `endpoint.paused`, …"]
    target: Annotated[str | None, "To what."]
    consumer: Annotated[str | None, id_of("con"), "Whose it is."]
    count: Annotated[int, "To how many."]
    detail: str
    why: str


class AuditList(ApiView):
    roles = {"GET": (Role.OPERATOR,)}
    scopes = {"GET": AUDIT_READ}
    parameters = {
        "GET": (
            Parameter("actor", "A kind (`user`, `portal`, `key`, `command`), an id (`key_…`) or a name.", _TEXT),
            Parameter("action", "What was done, such as `endpoint.paused`.", _TEXT),
            Parameter("target", "To what: its id or name.", _TEXT),
            Parameter("consumer", "Whose: the consumer's uid or id; a deleted one's id.", _TEXT),
            Parameter("since", "At this moment or later.", _TIME),
            Parameter("until", "Before this moment.", _TIME),
            *PAGE,
        )
    }
    operations = {"GET": Operation("list_audit_entries", Page[AuditEntryOut], problems=("not_found",))}

    def get(self, request: Request) -> Response:
        """List who changed what, to how many, and why; newest first."""
        rows, following = page(request, entries(_wanted(request)))
        return Response({"results": [_show(row) for row in rows], "next": following})


def _wanted(request: Request) -> Wanted:
    query = request.query_params
    return Wanted(
        actor=query.get("actor", ""),
        action=query.get("action", ""),
        target=query.get("target", ""),
        consumer_id=_consumer_id(request, query["consumer"]) if "consumer" in query else None,
        since=time_of(query["since"], "since") if "since" in query else None,
        until=time_of(query["until"], "until") if "until" in query else None,
    )


def _consumer_id(request: Request, name: str) -> UUID:
    """Also of one that has been deleted, by its id: the log outlives it."""
    return ids.parse("con", name) or consumer_or_404(request, name).id


def _show(entry: AuditEntry) -> AuditEntryOut:
    return {
        "id": entry.public_id,
        "at": entry.at,
        "actor": entry.actor,
        "actor_kind": entry.actor_kind,
        "actor_id": entry.actor_id,
        "action": entry.action,
        "target": entry.target or None,
        "consumer": ids.show("con", entry.consumer_id) if entry.consumer_id else None,
        "count": entry.count,
        "detail": entry.detail,
        "why": entry.why,
    }
