"""endpoints/{id}/ and its actions."""

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from subscriptions import endpoints
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
        return Response(show_endpoint(endpoints.update(found, shape.validated_data)))

    def delete(self, request: Request, endpoint: str) -> Response:
        endpoints.delete(endpoint_or_404(request, endpoint))
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
        body_object(request)

        def work() -> tuple[int, Any]:
            endpoints.pause(found)
            return 200, show_endpoint(found)

        return self.once(request, work)


class Resume(ApiView):
    roles = {"POST": EVERYONE}

    def post(self, request: Request, endpoint: str) -> HttpResponse:
        found = endpoint_or_404(request, endpoint)
        body_object(request)

        def work() -> tuple[int, Any]:
            endpoints.resume(found)
            return 200, show_endpoint(found)

        return self.once(request, work)
