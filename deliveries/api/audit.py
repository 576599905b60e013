"""audit/: who changed what, to how many, and why. For operators."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.api.events import time_of
from subscriptions import ids
from subscriptions.access.scopes import AUDIT_READ
from subscriptions.api.pagination import PAGE, page
from subscriptions.api.views import ApiView, consumer_or_404
from subscriptions.audit import Wanted, entries
from subscriptions.models import AuditEntry, Role


class AuditList(ApiView):
    roles = {"GET": (Role.OPERATOR,)}
    scopes = {"GET": AUDIT_READ}
    parameters = {"GET": ("actor", "action", "target", "consumer", "since", "until", *PAGE)}

    def get(self, request: Request) -> Response:
        """Newest first. ?actor= takes a kind (`user`, `portal`, `key`, `command`), an id (`key_…`, `vis_…`) or a name;
        ?action=, ?target=, ?consumer=, ?since= and ?until= narrow further.
        """
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


def _show(entry: AuditEntry) -> dict[str, Any]:
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
