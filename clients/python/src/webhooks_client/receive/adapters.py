"""A `Receiver` in a web framework. Each reads the raw body, which is what was signed.

Django    urlpatterns = [path("webhooks/", django_view(receiver))]
Flask     app.add_url_rule("/webhooks", view_func=flask_view(receiver), methods=["POST"])
FastAPI   app.add_route("/webhooks", starlette_endpoint(receiver), methods=["POST"])
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from webhooks_client.receive.receiver import Answer, Receiver

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from flask import Response as FlaskResponse
    from starlette.requests import Request as StarletteRequest
    from starlette.responses import Response as StarletteResponse


def django_view(receiver: Receiver) -> "Callable[..., HttpResponse]":
    from django.http import HttpResponse
    from django.views.decorators.csrf import csrf_exempt
    from django.views.decorators.http import require_POST

    @csrf_exempt
    @require_POST
    def view(request: "HttpRequest", **_: Any) -> "HttpResponse":
        answer = receiver.receive(request.body, request.headers)
        return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))

    return view


def flask_view(receiver: Receiver) -> "Callable[..., FlaskResponse]":
    from flask import Response, request

    def webhooks(**_: Any) -> "FlaskResponse":
        if (request.content_length or 0) > receiver.max_body_bytes:
            return Response(status=413)
        if not request.content_length:
            # In chunks, perhaps, and nobody has said how many.
            body = request.stream.read(receiver.max_body_bytes + 1)
        else:
            body = request.get_data(cache=False)
        answer = receiver.receive(body, dict(request.headers))
        return Response(answer.body, status=answer.status, headers=dict(answer.headers))

    return webhooks


def starlette_endpoint(receiver: Receiver) -> "Callable[[StarletteRequest], Awaitable[StarletteResponse]]":
    """The work runs in a thread, so it may block."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response

    async def webhooks(request: "StarletteRequest") -> "StarletteResponse":
        body = b""
        async for piece in request.stream():
            body += piece
            # Before all of it was taken in.
            if len(body) > receiver.max_body_bytes:
                return Response(status_code=413)
        answer: Answer = await run_in_threadpool(receiver.receive, body, dict(request.headers))
        return Response(answer.body, status_code=answer.status, headers=dict(answer.headers))

    return webhooks
