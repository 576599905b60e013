"""Every refusal is a problem document (`application/problem+json`) with a stable `code` and a sentence that helps."""

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

import orjson
from django.core.exceptions import TooManyFieldsSent
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from psycopg.errors import ReadOnlySqlTransaction
from rest_framework import exceptions
from rest_framework.response import Response

from subscriptions.audit import TooManyChanges
from subscriptions.secrets.vault import VaultError

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"

# RFC 8631: where somebody who has only the address learns the rest.
_DESCRIBED_BY = '</api/docs/>; rel="service-doc", </api/schema/>; rel="service-desc"'

_TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    411: "Length required",
    413: "Too large",
    415: "Unsupported media type",
    429: "Too many requests",
    500: "Internal error",
    503: "Temporarily unavailable",
}


class MistakeOut(TypedDict):
    """One mistake, and where it is."""

    pointer: Annotated[str, "A JSON pointer into the body; `?name` for a query parameter."]
    detail: str


class ProblemOut(TypedDict):
    """A refusal (RFC 9457). Nothing was done."""

    type: Annotated[str, {"format": "uri"}, "`urn:webhooks-platform:problem:` and the code."]
    title: Annotated[str, "What the status means."]
    status: int
    code: Annotated[str, "Stable: the one to look at in programs."]
    detail: Annotated[str, "A sentence for people. It may change."]
    errors: NotRequired[list[MistakeOut]]


class Problem(Exception):
    """Raised anywhere below a view; answered as a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def document(self) -> ProblemOut:
        document: ProblemOut = {
            "type": f"urn:webhooks-platform:problem:{self.code}",
            "title": _TITLES.get(self.status, "Error"),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [{"pointer": each["pointer"], "detail": each["detail"]} for each in self.errors]
        return document


def invalid(errors: Sequence[Mapping[str, str]]) -> Problem:
    """400 for a body whose shape is wrong, with a JSON pointer to each mistake."""
    return Problem(400, "invalid", "The request does not have the right shape; `errors` says where.", errors=errors)


def not_found(what: str) -> Problem:
    return Problem(404, "not_found", f"There is no such {what}.")


def handle(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """Django REST framework's exception handler. None lets an unforeseen error become a logged 500."""
    problem = as_problem(exc)
    if problem is None:
        return None
    return Response(problem.document(), status=problem.status, headers=problem.headers, content_type=CONTENT_TYPE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return as_response(Problem(400, "bad_request", "The request is malformed, or its Host is not in ALLOWED_HOSTS."))


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    detail = "There is nothing at this address. The API is described at /api/docs/."
    return as_response(Problem(404, "not_found", detail, headers={"Link": _DESCRIBED_BY}))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return as_response(Problem(403, "forbidden", "You may not do that."))


def server_error(request: HttpRequest) -> HttpResponse:
    return as_response(Problem(500, "internal_error", "Something broke on our side. It was logged; try again later."))


def as_response(problem: Problem) -> HttpResponse:
    """Outside Django REST framework."""
    return HttpResponse(
        orjson.dumps(problem.document()), status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers
    )


def as_problem(exc: Exception) -> Problem | None:
    """The refusal that an error stands for; None for one that nobody foresaw."""
    match exc:
        case Problem():
            return exc
        case exceptions.ValidationError():
            return invalid(_pointers(exc.detail))
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            is_missing = isinstance(exc, exceptions.NotAuthenticated)
            return Problem(
                401,
                "not_authenticated",
                "Send `Authorization: Bearer <key>`. The API is described at /api/docs/."
                if is_missing
                else str(exc.detail),
                headers={"WWW-Authenticate": 'Bearer realm="webhooks"', "Link": _DESCRIBED_BY},
            )
        case exceptions.PermissionDenied():
            return Problem(403, "forbidden", "This key's role does not allow that.")
        case exceptions.NotFound() | Http404():
            return Problem(404, "not_found", "There is nothing at this address.")
        case exceptions.MethodNotAllowed():
            return Problem(405, "method_not_allowed", str(exc.detail))
        case exceptions.UnsupportedMediaType():
            return Problem(415, "unsupported_media_type", "Send JSON, with `Content-Type: application/json`.")
        case TooManyFieldsSent():
            return Problem(400, "invalid_parameter", "There are too many parameters.")
        case TooManyChanges():
            return Problem(429, "too_many_changes", str(exc), headers={"Retry-After": "3600"})
        case VaultError():
            # Says which key is missing, and nothing of what it sealed.
            logger.error("secrets.locked", extra={"fields": {"error": str(exc)}})
            return Problem(503, "secrets_locked", "A secret cannot be opened at present. An operator has to look.")
        case OperationalError() | InterfaceError() | InternalError(__cause__=ReadOnlySqlTransaction()):
            # A commit whose answer was lost may have happened, so we cannot say that nothing was stored.
            return Problem(
                503,
                "database_unavailable",
                "The database did not answer in time. Send the same request again; with its Idempotency-Key it counts"
                " once.",
                headers={"Retry-After": "1"},
            )
    return None


def escaped(step: object) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return str(step).replace("~", "~0").replace("/", "~1")


def _pointers(detail: Any, pointer: str = "") -> list[dict[str, str]]:
    if isinstance(detail, dict):
        return [
            error
            for name, inner in detail.items()
            for error in _pointers(inner, pointer if name == "non_field_errors" else f"{pointer}/{escaped(name)}")
        ]
    if isinstance(detail, list):
        if all(isinstance(item, str) for item in detail):
            return [{"pointer": pointer, "detail": str(item)} for item in detail]
        return [error for index, item in enumerate(detail) for error in _pointers(item, f"{pointer}/{index}")]
    return [{"pointer": pointer, "detail": str(detail)}]
