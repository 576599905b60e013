"""endpoints/{id}/ and its actions."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries import lifecycle
from deliveries.actions import NothingDone, manual_sends
from deliveries.actions import endpoints as actions
from deliveries.api.show import show_trial
from deliveries.endpoint_tests import check_up, test_event
from subscriptions.access.scopes import ATTEMPTS_READ, ENDPOINTS_READ, ENDPOINTS_TEST, ENDPOINTS_WRITE, SECRETS_ROTATE
from subscriptions.api.authentication import actor, has_scope
from subscriptions.api.pagination import flag_of
from subscriptions.api.problems import Problem
from subscriptions.api.serializers import EndpointIn, RotateIn, WhyIn, show_endpoint
from subscriptions.api.views import (
    EVERYONE,
    ApiView,
    body_object,
    endpoint_or_404,
    fields_and_why,
    why_of_delete,
)
from subscriptions.endpoints import RotationInProgress

# What an attempt's requests and responses hold.
_DETAILS = {"request_headers", "request_body", "response_headers", "response_body", "error_detail"}
_WHAT_FORCE_BREAKS = (
    "Rotating now would silence it at once: a receiver that still verifies with it would refuse every request from then"
    ' on. Wait until then, or send "force": true if no receiver needs it any more.'
)


class EndpointDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": EVERYONE, "DELETE": EVERYONE}
    scopes = {"GET": ENDPOINTS_READ, "PATCH": ENDPOINTS_WRITE, "DELETE": ENDPOINTS_WRITE}
    parameters = {"DELETE": ("dry_run",)}
    fields = {"PATCH": EndpointIn}

    def get(self, request: Request, endpoint: str) -> Response:
        return Response(show_endpoint(endpoint_or_404(request, endpoint)))

    def patch(self, request: Request, endpoint: str) -> Response:
        found = endpoint_or_404(request, endpoint)
        fields, why = fields_and_why(EndpointIn(data=body_object(request), partial=True))
        return Response(show_endpoint(actions.update(found, fields, actor=actor(request), why=why)))

    def delete(self, request: Request, endpoint: str) -> Response:
        """204. What it is still owed becomes dead letters; ?dry_run=true says how many, and deletes nothing."""
        found = endpoint_or_404(request, endpoint)
        if flag_of(request, "dry_run"):
            return Response(
                {
                    "pending": lifecycle.backlog(found),
                    "detail": "Deleting it makes these dead letters with the reason `endpoint_deleted`, which cannot be"
                    " replayed. Their events stay in the feed, and the history stays readable.",
                }
            )
        actions.delete(found, actor=actor(request), why=why_of_delete(request))
        return Response(status=204)


class RotateSecret(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": SECRETS_ROTATE}
    fields = {"POST": RotateIn}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        found = endpoint_or_404(request, endpoint)
        fields, why = fields_and_why(RotateIn(data=body_object(request)))

        def work() -> tuple[int, Any]:
            try:
                rotated = actions.rotate_secret(found, **fields, actor=actor(request), why=why)
            except RotationInProgress as running:
                raise Problem(409, "rotation_in_progress", f"{running} {_WHAT_FORCE_BREAKS}") from None
            return 200, {
                "id": found.public_id,
                "secret": rotated.secret,
                "previous_expires_at": rotated.previous_expires_at,
            }

        return self.once(request, work)


class Pause(ApiView):
    roles = {"POST": EVERYONE}
    scopes = {"POST": ENDPOINTS_WRITE}
    fields = {"POST": WhyIn}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        """200 with the endpoint, also where it was paused before."""
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

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        """200 with the endpoint, also where it was active before."""
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
    fields = {"POST": WhyIn}

    def post(self, request: Request, endpoint: str) -> Response:
        """Sends a signed `webhook.test` event now, outside the queue, and answers what came back."""
        found = endpoint_or_404(request, endpoint)
        _, why = fields_and_why(WhyIn(data=body_object(request)))
        with _sent_by_hand():
            sent = manual_sends.send_test(found, actor=actor(request), why=why)
        return Response(_without_details(request, show_trial(sent)))


class EndpointCheckUp(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}
    scopes = {"GET": ENDPOINTS_READ, "POST": ENDPOINTS_TEST}
    fields = {"POST": WhyIn}

    def get(self, request: Request, endpoint: str) -> Response:
        report = check_up.last_report(endpoint_or_404(request, endpoint))
        if report is None:
            raise Problem(404, "no_check_up_yet", "This endpoint had no check-up yet. POST here to run one.")
        return Response(_without_details(request, report))

    def post(self, request: Request, endpoint: str) -> Response:
        """Sends a genuine, a forged, an old and a doubled request now, outside the queue, and answers what they say."""
        found = endpoint_or_404(request, endpoint)
        _, why = fields_and_why(WhyIn(data=body_object(request)))
        with _sent_by_hand():
            report = manual_sends.run_check_up(found, actor=actor(request), why=why)
        return Response(_without_details(request, report))


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
    except test_event.Busy as error:
        raise Problem(429, error.code, str(error), headers={"Retry-After": str(error.retry_after_seconds)}) from None
    except check_up.TooSoon:
        raise Problem(
            429,
            "check_up_too_soon",
            "The last check-up of this endpoint began moments ago. GET here shows its report.",
            headers={"Retry-After": str(check_up.PAUSE_SECONDS)},
        ) from None
