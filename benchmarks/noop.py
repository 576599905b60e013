"""A view that does nothing, on the same server: what Django REST framework costs before we begin."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

from django.urls import path  # noqa: E402
from rest_framework.parsers import JSONParser  # noqa: E402
from rest_framework.renderers import JSONRenderer  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from webhooks_platform.urls import handler404, handler500  # noqa: E402, F401
from webhooks_platform.urls import urlpatterns as real  # noqa: E402
from webhooks_platform.wsgi import application  # noqa: E402, F401


class Noop(APIView):
    authentication_classes = []
    permission_classes = []
    parser_classes = [JSONParser]
    renderer_classes = [JSONRenderer]

    def post(self, request: Request) -> Response:
        return Response({"received": len(request.data)}, status=202)


urlpatterns = [path("noop", Noop.as_view()), *real]
