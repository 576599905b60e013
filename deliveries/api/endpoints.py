"""Endpoints: how one is shown, what it can be told, and every route of theirs but their deliveries and statistics."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.http import HttpResponse
from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries.actions import NothingDone, manual_sends
from deliveries.actions import endpoints as actions
from deliveries.api.show import CheckUpOut, TrialOut, show_trial
from deliveries.endpoint_tests import check_up, test_event
from deliveries.health import lifecycle
from subscriptions import endpoints
from subscriptions.access.scopes import ATTEMPTS_READ, ENDPOINTS_READ, ENDPOINTS_TEST, ENDPOINTS_WRITE, SECRETS_ROTATE
from subscriptions.actions import endpoints as creation
from subscriptions.api.authentication import actor, has_scope
from subscriptions.api.describe import Operation, Page, Parameter, choices, id_of
from subscriptions.api.fields import Flag, Metadata, Text, Whole, Why, WhyIn
from subscriptions.api.pagination import PAGE, flag_of, page
from subscriptions.api.problems import Problem, invalid
from subscriptions.api.views import (
    EVERYONE,
    ApiView,
    body_object,
    consumer_or_404,
    endpoint_or_404,
    fields_and_why,
    why_of_delete,
)
from subscriptions.event_types import PATTERN, is_pattern
from subscriptions.guards import targets
from subscriptions.guards.headers import RefusedHeader, check_headers
from subscriptions.guards.urls import RefusedTarget
from subscriptions.models import Endpoint, EndpointStatus, PayloadMode
from subscriptions.process import counting
from subscriptions.secrets.own_secrets import PRINTABLE, Unfit

_LONGEST_WAIT = 7 * 86_400
_LONGEST_SCHEDULE = 20
# What an attempt's requests and responses hold.
_DETAILS = {"request_headers", "request_body", "response_headers", "response_body", "error_detail"}
_WHAT_FORCE_BREAKS = (
    "Rotating now would silence it at once: a receiver that still verifies with it would refuse every request from then"
    ' on. Wait until then, or send "force": true if no receiver needs it any more.'
)


# ── How an endpoint is shown ─────────────────────────────────────────────────────────────────────────────────────────


class EndpointOut(TypedDict):
    """A URL that wants events: which ones, how they are signed, how fast they may come, and how it is."""

    id: Annotated[str, id_of("ep")]
    consumer: Annotated[str, "Whose it is: the consumer's uid, or its id where it has none."]
    url: Annotated[str, {"format": "uri"}]
    event_types: Annotated[list[str], "`invoice.paid`, `invoice.*` or `*`."]
    description: str
    metadata: dict[str, str]
    headers: Annotated[list[str], "The names of its extra headers. Their values are secrets and not shown."]
    signature_scheme: Annotated[str, "How requests are signed: a name of `signature-profiles/`."]
    payload_mode: Annotated[str, choices(*PayloadMode.values)]
    ordered: bool
    max_in_flight: int
    rate_limit_per_second: int | None
    timeout_seconds: int
    retry_schedule: Annotated[list[int] | None, "Seconds to wait before each attempt; null: the deployment's own."]
    status: Annotated[str, choices(*EndpointStatus.values)]
    disabled_reason: Annotated[str | None, "Why it is not active."]
    created_at: datetime


class NewEndpointOut(EndpointOut):
    """A new endpoint with its signing secret, shown this once."""

    secret: Annotated[str | None, "`whsec_…`, to verify signatures with; null where you brought your own."]


def show_endpoint(endpoint: Endpoint) -> EndpointOut:
    return {
        "id": endpoint.public_id,
        "consumer": endpoint.consumer.uid or endpoint.consumer.public_id,
        "url": endpoint.url,
        "event_types": endpoint.event_types,
        "description": endpoint.description,
        "metadata": endpoint.metadata,
        "headers": endpoint.header_names,
        "signature_scheme": endpoint.signature_scheme,
        "payload_mode": endpoint.payload_mode,
        "ordered": endpoint.ordered,
        "max_in_flight": endpoint.max_in_flight,
        "rate_limit_per_second": endpoint.rate_limit_per_second,
        "timeout_seconds": endpoint.timeout_seconds,
        "retry_schedule": endpoint.retry_schedule,
        "status": endpoint.status,
        "disabled_reason": endpoint.disabled_reason or None,
        "created_at": endpoint.created_at,
    }


class RotatedSecretOut(TypedDict):
    """An endpoint's new secret, shown this once."""

    id: Annotated[str, id_of("ep")]
    secret: Annotated[str | None, "`whsec_…`; signatures made with it come first. null where you brought your own."]
    previous_expires_at: Annotated[datetime | None, "Until when requests are signed with the old secret, too."]


class BacklogOut(TypedDict):
    """What a deletion would do. Nothing was deleted."""

    pending: Annotated[int, "Deliveries that would become dead letters."]
    detail: str


# ── What it can be told ──────────────────────────────────────────────────────────────────────────────────────────────


class EndpointIn(serializers.Serializer[Any]):
    """An endpoint as you want it."""

    url = Text(max_length=4096, help_text="Where requests go: `https:`, and no address of a private network.")
    event_types = serializers.ListField(
        child=Text(keywords={"maxLength": 255, "pattern": f"^({PATTERN.pattern})$"}),
        required=False,
        allow_empty=False,
        max_length=100,
        help_text="`invoice.paid`, `invoice.*` or `*`, which is the default.",
    )
    description = Text(required=False, allow_blank=True, max_length=2000, help_text="For people.")
    metadata = Metadata(required=False)
    headers = serializers.DictField(
        child=Text(), required=False, help_text="Extra headers of every request. Their values are never shown again."
    )
    signature_scheme = Text(
        required=False,
        max_length=64,
        help_text="How requests are signed: `timestamped`, `standard` or another name of `signature-profiles/`.",
    )
    payload_mode = serializers.ChoiceField(
        PayloadMode.choices,
        required=False,
        help_text="`thin` keeps of `data` only `id` and `…_id`: fetch the event with your key. `cloudevents` is"
        " CloudEvents 1.0 in the body, `cloudevents_binary` with its attributes in headers.",
    )
    ordered = Flag(required=False, help_text="Each `ordering_key` one event at a time, in sequence.")
    max_in_flight = Whole(required=False, min_value=1, max_value=1000, help_text="Requests at the same time.")
    rate_limit_per_second = Whole(
        required=False, allow_null=True, min_value=1, max_value=10_000, help_text="Requests per second; null: no limit."
    )
    timeout_seconds = Whole(
        required=False, min_value=1, max_value=30, help_text="How long one attempt may take, from dial to last byte."
    )
    retry_schedule = serializers.ListField(
        child=Whole(min_value=0, max_value=_LONGEST_WAIT),
        required=False,
        allow_null=True,
        allow_empty=False,
        max_length=_LONGEST_SCHEDULE,
        help_text="Seconds to wait before each attempt; as many attempts as entries. null: the deployment's own.",
    )
    why = Why()

    def validate_url(self, url: str) -> str:
        try:
            return targets.check_url(url)
        except RefusedTarget as refused:
            counting.count("refused", refused.code)
            raise serializers.ValidationError(str(refused), code=refused.code) from None

    def validate_event_types(self, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if not is_pattern(pattern):
                raise serializers.ValidationError(
                    _("%(pattern)s is no event type: write `invoice.paid`, `invoice.*` or `*`.")
                    % {"pattern": repr(pattern)}
                )
        return list(dict.fromkeys(patterns))

    def validate_headers(self, headers: dict[str, str]) -> dict[str, str]:
        try:
            check_headers(headers)
        except RefusedHeader as refused:
            raise serializers.ValidationError(str(refused), code=refused.code) from None
        return headers


class OwnSecret(Text):
    """A secret that receivers hold already. Write-only: no answer shows it."""

    def __init__(self) -> None:
        super().__init__(
            required=False,
            keywords={"minLength": 16, "maxLength": 256, "pattern": f"^{PRINTABLE.pattern}$"},
            help_text="A secret that your receivers hold already, never shown again: 16 to 256 printable characters;"
            " for `standard`, `whsec_` and the base64 of 24 to 64 bytes. Left out: a new one is made.",
        )


class NewEndpointIn(EndpointIn):
    """A new endpoint."""

    secret = OwnSecret()


class RotateIn(serializers.Serializer[Any]):
    """How a secret is replaced."""

    secret = OwnSecret()

    overlap_seconds = Whole(
        required=False,
        default=86_400,
        min_value=0,
        max_value=604_800,
        help_text="How long requests are signed with the old secret, too; 0 after a leak.",
    )
    force = Flag(required=False, default=False, help_text="Also while the last rotation's old secret still signs.")
    why = Why()


class TestIn(WhyIn):
    """Which event to send. The body may be left out."""

    type = Text(
        required=False,
        default=test_event.TYPE,
        max_length=255,
        help_text="Any type of the catalogue; left out, `webhook.test`.",
    )
    # A serializer's `data` is what it was given; a field of that name is read like any other.
    data = serializers.DictField(  # type: ignore[assignment]
        child=serializers.JSONField(allow_null=True),
        required=False,
        help_text="The event's data; left out, the type's example.",
    )


# ── Routes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_DRY_RUN = Parameter("dry_run", "`true`: say what it would do, and do nothing.", {"type": "boolean", "default": False})
_NOT_SENT = ("held", "secrets_locked", "too_many_tests", "endpoint_full")


class EndpointList(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}
    scopes = {"GET": ENDPOINTS_READ, "POST": ENDPOINTS_WRITE}
    parameters = {"GET": PAGE}
    fields = {"POST": NewEndpointIn}
    operations = {
        "GET": Operation("list_endpoints", Page[EndpointOut]),
        "POST": Operation(
            "create_endpoint",
            NewEndpointOut,
            status=201,
            problems=("too_many_endpoints", "too_many_new_endpoints"),
        ),
    }

    def get(self, request: Request, consumer: str) -> Response:
        """List a consumer's endpoints, newest first."""
        found = consumer_or_404(request, consumer)
        living = Endpoint.objects.select_related("consumer").filter(consumer=found, deleted_at__isnull=True)
        rows, following = page(request, living)
        return Response({"results": [show_endpoint(row) for row in rows], "next": following})

    def post(self, request: Request, consumer: str) -> HttpResponse:
        """Create an endpoint. The answer holds its signing secret, this once, unless you brought your own."""
        found = consumer_or_404(request, consumer)
        fields, why = fields_and_why(NewEndpointIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                with _fitting_secret("/secret"):
                    endpoint, secret = creation.create(consumer=found, **fields, actor=actor(request), why=why)
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
            shown: NewEndpointOut = {**show_endpoint(endpoint), "secret": _shown(secret, fields)}
            return 201, shown

        return self.once(request, work)


class EndpointDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": EVERYONE, "DELETE": EVERYONE}
    scopes = {"GET": ENDPOINTS_READ, "PATCH": ENDPOINTS_WRITE, "DELETE": ENDPOINTS_WRITE}
    parameters = {"DELETE": (_DRY_RUN,)}
    fields = {"PATCH": EndpointIn}
    operations = {
        "GET": Operation("get_endpoint", EndpointOut),
        "PATCH": Operation("update_endpoint", EndpointOut),
        "DELETE": Operation("delete_endpoint", status=204, also={200: BacklogOut}),
    }

    def get(self, request: Request, endpoint: str) -> Response:
        """Read an endpoint."""
        return Response(show_endpoint(endpoint_or_404(request, endpoint)))

    def patch(self, request: Request, endpoint: str) -> Response:
        """Change an endpoint. Fields that are not sent stay as they are."""
        found = endpoint_or_404(request, endpoint)
        fields, why = fields_and_why(EndpointIn(data=body_object(request), partial=True))
        with _fitting_secret("/signature_scheme"):
            return Response(show_endpoint(actions.update(found, fields, actor=actor(request), why=why)))

    def delete(self, request: Request, endpoint: str) -> Response:
        """Delete an endpoint.

        What it is still owed becomes dead letters. With `dry_run`, the answer is 200 and says how many, and nothing is
        deleted.
        """
        found = endpoint_or_404(request, endpoint)
        if flag_of(request, "dry_run"):
            shown: BacklogOut = {
                "pending": lifecycle.backlog(found),
                "detail": "Deleting it makes these dead letters with the reason `endpoint_deleted`, which cannot be"
                " replayed. Their events stay in the feed, and the history stays readable.",
            }
            return Response(shown)
        actions.delete(found, actor=actor(request), why=why_of_delete(request))
        return Response(status=204)


class RotateSecret(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": SECRETS_ROTATE}
    fields = {"POST": RotateIn}
    operations = {"POST": Operation("rotate_secret", RotatedSecretOut, problems=("rotation_in_progress",))}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        """Replace an endpoint's signing secret.

        Requests are signed with both secrets, the new one first, until `previous_expires_at`: a receiver that holds
        either verifies every request.
        """
        found = endpoint_or_404(request, endpoint)
        fields, why = fields_and_why(RotateIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                with _fitting_secret("/secret"):
                    rotated = actions.rotate_secret(found, **fields, actor=actor(request), why=why)
            except endpoints.RotationInProgress as running:
                raise Problem(409, "rotation_in_progress", f"{running} {_WHAT_FORCE_BREAKS}") from None
            shown: RotatedSecretOut = {
                "id": found.public_id,
                "secret": _shown(rotated.secret, fields),
                "previous_expires_at": rotated.previous_expires_at,
            }
            return 200, shown

        return self.once(request, work)


class Pause(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": ENDPOINTS_WRITE}
    fields = {"POST": WhyIn}
    operations = {"POST": Operation("pause_endpoint", EndpointOut)}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        """Pause an endpoint. What comes for it waits; pausing twice is no mistake."""
        found = endpoint_or_404(request, endpoint)
        _, why = fields_and_why(WhyIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            with suppress(NothingDone):
                actions.pause(found, actor=actor(request), why=why)
            found.refresh_from_db()
            return 200, show_endpoint(found)

        return self.once(request, work)


class Resume(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": ENDPOINTS_WRITE}
    fields = {"POST": WhyIn}
    operations = {"POST": Operation("resume_endpoint", EndpointOut)}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        """Resume an endpoint that is paused or disabled. What waited for it goes out."""
        found = endpoint_or_404(request, endpoint)
        _, why = fields_and_why(WhyIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            with suppress(NothingDone):
                actions.resume(found, actor=actor(request), why=why)
            found.refresh_from_db()
            return 200, show_endpoint(found)

        return self.once(request, work)


class Test(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": ENDPOINTS_TEST}
    fields = {"POST": TestIn}
    operations = {"POST": Operation("test_endpoint", TrialOut, problems=(*_NOT_SENT, "event_type_unknown"))}
    idempotent = False

    def post(self, request: Request, endpoint: str) -> Response:
        """Send a signed test event now, outside the queue, and answer what came back.

        Its type is `webhook.test` or any of the catalogue, its data the type's example or your own. It carries
        `webhook-test: true`, counts against the endpoint's limits, and stays in the portal's log of tests.
        """
        found = endpoint_or_404(request, endpoint)
        fields, why = fields_and_why(TestIn(data=body_object(request)))
        data = test_event.data_of(fields["type"], fields.get("data"))
        if data is None:
            detail = f"There is no event type {fields['type']!r} in the catalogue."
            raise Problem(400, "event_type_unknown", detail, errors=[{"pointer": "/type", "detail": detail}])
        with _sent_by_hand():
            sent, _ = manual_sends.send_test(found, actor=actor(request), why=why, type=fields["type"], data=data)
        return Response(_without_details(request, dict(show_trial(sent))))


class EndpointCheckUp(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}
    scopes = {"GET": ENDPOINTS_READ, "POST": ENDPOINTS_TEST}
    fields = {"POST": WhyIn}
    operations = {
        "GET": Operation("get_check_up", CheckUpOut, problems=("no_check_up_yet",)),
        "POST": Operation("run_check_up", CheckUpOut, problems=(*_NOT_SENT, "check_up_too_soon")),
    }
    idempotent = False

    def get(self, request: Request, endpoint: str) -> Response:
        """Read the report of an endpoint's last check-up."""
        report = check_up.last_report(endpoint_or_404(request, endpoint))
        if report is None:
            raise Problem(404, "no_check_up_yet", "This endpoint had no check-up yet. POST here to run one.")
        return Response(_without_details(request, report))

    def post(self, request: Request, endpoint: str) -> Response:
        """Check an endpoint's receiver.

        Sends a genuine, a forged, an old and a doubled request now, outside the queue, and answers what the receiver
        made of them: does it verify, refuse old requests, dedupe and answer fast?
        """
        found = endpoint_or_404(request, endpoint)
        _, why = fields_and_why(WhyIn(data=body_object(request)))
        with _sent_by_hand():
            report = manual_sends.run_check_up(found, actor=actor(request), why=why)
        return Response(_without_details(request, report))


def _shown(secret: str, fields: dict[str, Any]) -> str | None:
    """A secret that the caller brought is not shown again, not even to the caller."""
    return None if "secret" in fields else secret


@contextmanager
def _fitting_secret(pointer: str) -> Iterator[None]:
    """Turns a scheme that is not there, or a secret or header that does not fit it, into a problem at its field."""
    try:
        yield
    except Unfit as unfit:
        raise invalid([{"pointer": unfit.pointer or pointer, "detail": str(unfit)}]) from None


def _without_details(request: Request, shown: dict[str, Any]) -> dict[str, Any]:
    """A test's or a check-up's answer: whether it went well, and the rest for those who may read attempts."""
    if has_scope(request, ATTEMPTS_READ):
        return shown
    kept = {name: value for name, value in shown.items() if name not in _DETAILS}
    if "findings" in kept:
        kept["findings"] = [{**finding, "received": None} for finding in kept["findings"]]
    return kept


@contextmanager
def _sent_by_hand() -> Iterator[None]:
    """Turns the reasons for which nothing was sent into problems."""
    try:
        yield
    except test_event.Held:
        raise Problem(409, "held", "An operator holds everything back, so nothing goes out. Try again later.") from None
    except test_event.Locked as error:
        raise Problem(503, error.code, str(error)) from None
    except test_event.TooManyTests as error:
        raise Problem(429, error.code, str(error), headers={"Retry-After": str(error.retry_after_seconds)}) from None
    except check_up.TooSoon:
        raise Problem(
            429,
            "check_up_too_soon",
            "The last check-up of this endpoint began moments ago. GET here shows its report.",
            headers={"Retry-After": str(check_up.PAUSE_SECONDS)},
        ) from None
