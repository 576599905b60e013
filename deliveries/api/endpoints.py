"""endpoints/{id}/ and its actions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from deliveries import check_up, lifecycle, trial
from deliveries.api.show import show_trial
from subscriptions import endpoints
from subscriptions.api.authentication import caller
from subscriptions.api.problems import Problem
from subscriptions.api.serializers import EndpointIn, RotateIn, show_endpoint
from subscriptions.api.views import EVERYONE, ApiView, body_object, endpoint_or_404


class EndpointDetail(ApiView):
    roles = {"GET": EVERYONE, "PATCH": EVERYONE, "DELETE": EVERYONE}

    def get(self, request: Request, endpoint: str) -> Response:
        return Response(show_endpoint(endpoint_or_404(request, endpoint)))

    def patch(self, request: Request, endpoint: str) -> Response:
        found = endpoint_or_404(request, endpoint)
        shape = EndpointIn(data=body_object(request), partial=True)
        shape.is_valid(raise_exception=True)
        return Response(show_endpoint(lifecycle.update(found, shape.validated_data)))

    def delete(self, request: Request, endpoint: str) -> Response:
        """204. What it is still owed becomes dead letters; ?dry_run=true says how many, and deletes nothing."""
        found = endpoint_or_404(request, endpoint)
        if request.query_params.get("dry_run") == "true":
            return Response(
                {
                    "pending": lifecycle.backlog(found),
                    "detail": "Deleting it makes these dead letters with the reason `endpoint_deleted`, which cannot be"
                    " replayed. Their events stay in the feed, and the history stays readable.",
                }
            )
        endpoints.delete(found)
        return Response(status=204)


class RotateSecret(ApiView):
    roles = {"POST": EVERYONE}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        found = endpoint_or_404(request, endpoint)
        shape = RotateIn(data=body_object(request))
        shape.is_valid(raise_exception=True)

        def work() -> tuple[int, Any]:
            rotated = endpoints.rotate_secret(found, overlap_seconds=shape.validated_data["overlap_seconds"])
            return 200, {
                "id": found.public_id,
                "secret": rotated.secret,
                "previous_expires_at": rotated.previous_expires_at,
            }

        return self.once(request, work)


class Pause(ApiView):
    roles = {"POST": EVERYONE}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        found = endpoint_or_404(request, endpoint)

        def work() -> tuple[int, Any]:
            lifecycle.pause(found, reason=f"by a {caller(request).role}")
            return 200, show_endpoint(found)

        return self.once(request, work)


class Resume(ApiView):
    roles = {"POST": EVERYONE}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        found = endpoint_or_404(request, endpoint)

        def work() -> tuple[int, Any]:
            lifecycle.resume(found, reason=f"by a {caller(request).role}")
            return 200, show_endpoint(found)

        return self.once(request, work)


class Test(ApiView):
    roles = {"POST": EVERYONE}

    def post(self, request: Request, endpoint: str) -> Response:
        """Sends a signed `webhook.test` event now, outside the queue, and answers what came back."""
        found = endpoint_or_404(request, endpoint)
        with _sent_by_hand():
            return Response(show_trial(trial.run(found)))


class EndpointCheckUp(ApiView):
    roles = {"GET": EVERYONE, "POST": EVERYONE}

    def get(self, request: Request, endpoint: str) -> Response:
        report = check_up.last_report(endpoint_or_404(request, endpoint))
        if report is None:
            raise Problem(404, "no_check_up_yet", "This endpoint had no check-up yet. POST here to run one.")
        return Response(report)

    def post(self, request: Request, endpoint: str) -> Response:
        """Sends a genuine, a forged, an old and a doubled request now, outside the queue, and answers what they say."""
        found = endpoint_or_404(request, endpoint)
        with _sent_by_hand():
            return Response(check_up.run(found))


@contextmanager
def _sent_by_hand() -> Iterator[None]:
    """Turns the reasons for which nothing was sent into problems."""
    try:
        yield
    except trial.Held:
        raise Problem(409, "held", "An operator holds everything back, so nothing goes out. Try again later.") from None
    except trial.Busy:
        raise Problem(
            429, "too_many_tests", "Other tests are under way. Try again in a moment.", headers={"Retry-After": "5"}
        ) from None
    except check_up.TooSoon:
        raise Problem(
            429,
            "check_up_too_soon",
            "The last check-up of this endpoint began moments ago. GET here shows its report.",
            headers={"Retry-After": str(check_up.PAUSE_SECONDS)},
        ) from None
