"""What every view shares: roles by method, idempotent POSTs, and 404 for whatever belongs to somebody else."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer
from rest_framework.views import APIView

from subscriptions import consumers, endpoints, idempotency
from subscriptions.access.caller import Caller
from subscriptions.api.authentication import caller, is_known, look_again
from subscriptions.api.describe import Operation, Parameter
from subscriptions.api.known_names import Names, names_of, refuse_unknown_fields, refuse_unknown_parameters
from subscriptions.api.problems import Problem, invalid, not_found
from subscriptions.api.rendering import render
from subscriptions.audit import LONGEST_WHY
from subscriptions.idempotency import Scope, StoredAnswer
from subscriptions.limits import rate_limit
from subscriptions.models import Consumer, Endpoint, Role

EVERYONE = (Role.PRODUCER, Role.CONSUMER, Role.OPERATOR)
PRODUCERS = (Role.PRODUCER, Role.OPERATOR)
# Where a request carries what the rate limit said, when it was asked before the view.
ALLOWANCE = "webhooks.allowance"
WHY = Parameter("why", "The reason, for the audit log.", {"type": "string", "maxLength": LONGEST_WHY})
# Whoever takes longer than this to send a body may have been shut out meanwhile (seconds).
_SLOW_BODY_SECONDS = 1.0


class ApiView(APIView):
    """A view says per method who may call it and what it knows. A method that is not named is closed to everybody and
    knows no query parameter and no field; a name that is not known is refused before anything is looked up or done.
    """

    roles: ClassVar[dict[str, tuple[Role, ...]]] = {}
    # What a key needs besides its role, by method (subscriptions/access/scopes.py).
    scopes: ClassVar[dict[str, str]] = {}
    parameters: ClassVar[dict[str, tuple[Parameter, ...]]] = {}
    fields: ClassVar[dict[str, type[BaseSerializer[Any]] | Names]] = {}
    # What every route's requests of a method may send, beside what its view declares.
    common_parameters: ClassVar[dict[str, tuple[Parameter, ...]]] = {"DELETE": (WHY,)}
    # What each method is called and answers, for the API's own description (webhooks_platform/openapi).
    operations: ClassVar[dict[str, Operation]] = {}
    # Whether its POSTs heed an Idempotency-Key.
    idempotent: ClassVar[bool] = True

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # Without a length, Django reads no body at all and would take it for an empty one.
        if "Content-Length" not in request.headers and _has_body(request):
            raise Problem(411, "length_required", "Send the body with a Content-Length, not in chunks.")
        self._refuse_unknown_names(request)
        # Nothing is named so, and PostgreSQL cannot even be asked.
        if any("\0" in name for name in kwargs.values()):
            raise not_found("thing")
        if any("\0" in value for value in request.query_params.values()):
            raise Problem(400, "invalid_parameter", "A parameter holds a NUL character.")

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Which methods there are. Nothing is looked up: whether the path leads anywhere, this does not say."""
        return Response(status=204)

    @property
    def allowed_methods(self) -> list[str]:
        """For the header Allow, which every answer has."""
        return [*self.roles, *(["HEAD"] if "GET" in self.roles else []), "OPTIONS"]

    @classmethod
    def declared_parameters(cls, method: str) -> tuple[Parameter, ...]:
        return cls.parameters.get(method, ()) + cls.common_parameters.get(method, ())

    @classmethod
    def known_parameters(cls, method: str) -> tuple[str, ...]:
        return tuple(each.name for each in cls.declared_parameters(method))

    @classmethod
    def known_fields(cls, method: str) -> Names:
        declared = cls.fields.get(method, {})
        # mypy takes the class of a serializer for unhashable.
        return names_of(declared) if isinstance(declared, type) else declared  # type: ignore[arg-type]

    def _refuse_unknown_names(self, request: Request) -> None:
        """Of parameters, then of fields, also where a route takes none: what is no JSON object was not meant for us."""
        method = "GET" if request.method == "HEAD" else str(request.method)
        parameters, fields = self.known_parameters(method), self.known_fields(method)
        refuse_unknown_parameters(request.query_params, known=parameters, fields=fields)
        if request.method != "HEAD":
            begun = time.monotonic()
            body = body_object(request)
            if time.monotonic() - begun > _SLOW_BODY_SECONDS:
                look_again(request)
            refuse_unknown_fields(body, known=fields, parameters=parameters)

    def check_throttles(self, request: Request) -> None:
        taken = request.META.get(ALLOWANCE)
        self._allowance = taken or rate_limit.take(caller(request).owner)
        if self._allowance is not None and self._allowance.retry_after_seconds is not None:
            raise Problem(
                429,
                "rate_limited",
                f"The owner of this key may send {self._allowance.limit} requests at once. Wait, then send it again.",
                headers=self._allowance.headers,
            )

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        allowance = getattr(self, "_allowance", None)
        for name, value in (allowance.headers if allowance else {}).items():
            response[name] = value
        _take_in(request)
        return response

    def once(self, request: Request, work: Callable[[], tuple[int, Any]], *, makes_key: bool = False) -> HttpResponse:
        """Answers what `work` returns, at most once per Idempotency-Key.

        An answer that holds a new API key is shown again only to the key it was made with: another key of the same
        owner may have fewer scopes, or end sooner.
        """

        def rendered() -> StoredAnswer:
            status_code, body = work()
            return StoredAnswer(status_code=status_code, body=render(body))

        with idempotency_problems():
            sent = [request.data, str(caller(request).key_id)] if makes_key else request.data
            return as_response(idempotency.once(scope_of(request.META, caller(request), sent), rendered))


@contextmanager
def idempotency_problems() -> Iterator[None]:
    """What may be wrong with an Idempotency-Key, as problems."""
    try:
        yield
    except idempotency.KeyInvalid:
        raise Problem(
            400, "idempotency_key_invalid", "An Idempotency-Key is 1 to 255 visible ASCII characters."
        ) from None
    except idempotency.KeyReused:
        raise Problem(
            409, "idempotency_key_reused", "This Idempotency-Key was sent before with another body. Use a new key."
        ) from None
    except idempotency.InProgress:
        raise Problem(
            409,
            "idempotency_in_progress",
            "A request with this Idempotency-Key is still under way. Send the same request again in a moment.",
            headers={"Retry-After": "1"},
        ) from None


def scope_of(environ: Mapping[str, Any], caller: Caller, body: Any) -> Scope | None:
    """What a request's Idempotency-Key is unique within, and the body it came with. None without a key."""
    header = environ.get("HTTP_IDEMPOTENCY_KEY")
    if header is None:
        return None
    return Scope(
        owner=caller.owner,
        operation=operation_of(environ["REQUEST_METHOD"], environ["PATH_INFO"]),
        key=idempotency.parse_key(header),
        fingerprint=idempotency.fingerprint(body),
    )


def as_response(answer: StoredAnswer) -> HttpResponse:
    response = HttpResponse(answer.body, status=answer.status_code, content_type="application/json")
    if answer.replayed:
        response["Idempotent-Replayed"] = "true"
    return response


def _has_body(request: Request) -> bool:
    """Of a request without a length. HTTP/2 has no header that would say so: there it takes a look."""
    if "Transfer-Encoding" in request.headers:
        return True
    # Where the web server does not say where the body ends, a look could wait for ever.
    is_safe = request.method in ("POST", "PATCH", "DELETE") and request.META.get("wsgi.input_terminated")
    return bool(is_safe and request.META["wsgi.input"].read(1))


def _take_in(request: Request) -> None:
    """Reads what came with a refused request, if nobody has. Left unread, it makes the web server hang up, and who is
    still sending may hear of that instead of the answer. Strangers could hold up a thread so; callers can anyway.
    """
    length = str(request.META.get("CONTENT_LENGTH") or "")
    is_read = getattr(request._request, "_read_started", True)
    if not is_read and length.isdigit() and 0 < int(length) <= settings.MAX_BODY_BYTES and is_known(request):
        with suppress(OSError):
            request._request.read()


def operation_of(method: str, path: str) -> str:
    """What an Idempotency-Key is unique within."""
    operation = f"{method} {path.rstrip('/')}"
    # A path may hold a uid of 255 characters, which is what the whole column holds.
    return operation if len(operation) <= 255 else hashlib.sha256(operation.encode()).hexdigest()


def consumer_or_404(request: Request, name: str) -> Consumer:
    """By id or uid. A consumer's key sees its own consumer and nobody else's."""
    consumer = consumers.find(name)
    own = caller(request).consumer_id
    if consumer is None or (own is not None and consumer.id != own):
        raise not_found("consumer")
    return consumer


def endpoint_or_404(request: Request, public_id: str) -> Endpoint:
    endpoint = endpoints.find(public_id, consumer_id=caller(request).consumer_id)
    if endpoint is None:
        raise not_found("endpoint")
    return endpoint


def body_object(request: Request) -> dict[str, Any]:
    """The body as an object; an absent body counts as an empty one."""
    data = request.data
    if not isinstance(data, dict):
        raise Problem(400, "invalid", "The body must be a JSON object.")
    return data


def fields_and_why(shape: Serializer[Any]) -> tuple[dict[str, Any], str]:
    """What was sent, checked, and the reason for it."""
    shape.is_valid(raise_exception=True)
    fields = dict(shape.validated_data)
    return fields, fields.pop("why", "")


def why_of_delete(request: Request) -> str:
    """A DELETE has no body: its reason stands in the query."""
    why = str(request.query_params.get("why", ""))
    if len(why) > LONGEST_WHY:
        raise Problem(400, "invalid_parameter", f"`why` is at most {LONGEST_WHY} characters.")
    return why


def setting_error(pointer: str, detail: str) -> Problem:
    return invalid([{"pointer": pointer, "detail": detail}])
