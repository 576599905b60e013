"""A view that does nothing, on the same server: what Django REST framework costs before we begin."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

from django.urls import path
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webhooks_platform.urls import handler404, handler500  # noqa: F401
from webhooks_platform.urls import urlpatterns as real
from webhooks_platform.wsgi import application  # noqa: F401


class Noop(APIView):
    authentication_classes = []
    permission_classes = []
    parser_classes = [JSONParser]
    renderer_classes = [JSONRenderer]

    def post(self, request: Request) -> Response:
        return Response({"received": len(request.data)}, status=202)


urlpatterns = [path("api/v1/noop", Noop.as_view()), *real]
