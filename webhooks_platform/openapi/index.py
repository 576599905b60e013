"""GET /api/v1/: every route with a line each, and which of them the caller's key may use."""

from typing import Annotated, TypedDict

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions.access.scopes import ANY
from subscriptions.api.authentication import caller, may
from subscriptions.api.describe import Operation, choices
from subscriptions.api.views import EVERYONE, ApiView
from subscriptions.models import Role
from webhooks_platform.api_routes import ROUTES, ApiRoute


class IndexLineOut(TypedDict):
    """One method of one route."""

    method: Annotated[str, choices("GET", "POST", "PATCH", "DELETE")]
    path: str
    summary: str
    operation: Annotated[str, "Its `operationId` in the schema."]
    roles: Annotated[list[str], "Whose keys may use it."]
    scope: Annotated[str | None, "What a key needs besides its role."]
    allowed: Annotated[bool, "Whether your key may use it."]


class IndexOut(TypedDict):
    """What there is, and what your key may use of it."""

    documentation: Annotated[str, {"format": "uri"}]
    schema: Annotated[str, {"format": "uri"}, "The OpenAPI document."]
    role: Annotated[str, choices(*Role.values), "Your key's."]
    scopes: Annotated[list[str], "Your key's."]
    routes: list[IndexLineOut]


class Index(ApiView):
    roles = {"GET": EVERYONE}
    scopes = {"GET": ANY}
    operations = {"GET": Operation("get_index", IndexOut)}

    def get(self, request: Request) -> Response:
        """List every route with a line each, and which of them your key may use."""
        by = caller(request)
        shown: IndexOut = {
            "documentation": request.build_absolute_uri(reverse("api-docs")),
            "schema": request.build_absolute_uri(reverse("api-schema")),
            "role": by.role,
            "scopes": sorted(by.scopes),
            "routes": [
                {
                    "method": method,
                    "path": route.path,
                    "summary": summary(route.view, method),
                    "operation": route.view.operations[method].id,
                    "roles": [role.value for role in roles],
                    "scope": scope_of(route.view, method),
                    "allowed": may(by, roles, route.view.scopes[method]),
                }
                for route in (INDEX, *ROUTES)
                for method, roles in route.view.roles.items()
            ],
        }
        return Response(shown)


INDEX = ApiRoute("", Index, "index")


def summary(view: type[ApiView], method: str) -> str:
    """The first sentence of the docstring of the function that answers."""
    return paragraphs(view, method)[0]


def paragraphs(view: type[ApiView], method: str) -> list[str]:
    """The first sentence by itself, what follows it, and the other paragraphs."""
    said = getattr(view, method.lower()).__doc__ or ""
    first, *others = [" ".join(part.split()) for part in said.strip().split("\n\n")]
    return [*first.split(". ", maxsplit=1), *others]


def scope_of(view: type[ApiView], method: str) -> str | None:
    return None if view.scopes[method] == ANY else view.scopes[method]
