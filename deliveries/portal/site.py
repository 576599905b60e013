"""The map of the portal: the pages where a consumer looks after its endpoints, and what it may do there.

Everything but the door asks for a session first. `_page` and `_deed` hand each view the consumer whose session it is,
and nothing else says who that is: a view can only look for things of the consumer it was given.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import path

from deliveries.portal import deliveries, door, endpoints, signatures
from deliveries.portal.page import closed, enter_as
from subscriptions import portal

View = Callable[..., HttpResponse]

# No script at all, no style but our own file, nothing from elsewhere, in nobody's frame.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def _page(view: View) -> View:
    return _inside(view, "GET", "HEAD")


def _deed(view: View) -> View:
    return _inside(view, "POST")


def _form(view: View) -> View:
    return _inside(view, "GET", "HEAD", "POST")


def _inside(view: View, *methods: str) -> View:
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        visit = portal.visitor(request.COOKIES.get(door.COOKIE, ""))
        if visit is None:
            return closed(request)
        enter_as(request, visit)
        return view(request, visit.consumer, **kwargs)

    return _sealed(guarded, *methods)


def _sealed(view: View, *methods: str) -> View:
    """What holds for every answer. That a form carries its CSRF token, the middleware has seen before."""

    @wraps(view)
    def sealed(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        answer = view(request, **kwargs) if request.method in methods else HttpResponseNotAllowed(methods)
        answer["Content-Security-Policy"] = POLICY
        # To no other site. `no-referrer` would also make browsers send `Origin: null`, which the CSRF check refuses.
        answer["Referrer-Policy"] = "same-origin"
        answer["Cache-Control"] = "no-store"
        return answer

    return sealed


urlpatterns = [
    path("", _page(endpoints.index), name="home"),
    path("enter/<str:token>/", _sealed(door.enter, "GET", "HEAD", "POST"), name="enter"),
    path("leave/", _sealed(door.leave, "POST"), name="leave"),
    path("signatures/", _form(signatures.show), name="signatures"),
    path("endpoints/new/", _form(endpoints.new), name="endpoint-new"),
    path("endpoints/<str:endpoint>/", _page(endpoints.show), name="endpoint"),
    path("endpoints/<str:endpoint>/edit/", _form(endpoints.edit), name="endpoint-edit"),
    path("endpoints/<str:endpoint>/deliveries/", _page(deliveries.index), name="deliveries"),
    path("endpoints/<str:endpoint>/pause/", _deed(endpoints.pause), name="pause"),
    path("endpoints/<str:endpoint>/resume/", _deed(endpoints.resume), name="resume"),
    path("endpoints/<str:endpoint>/rotate-secret/", _deed(endpoints.rotate_secret), name="rotate-secret"),
    path("endpoints/<str:endpoint>/check-up/", _deed(endpoints.check), name="check-up"),
    path("endpoints/<str:endpoint>/replay/", _deed(endpoints.replay_dead), name="replay-dead"),
    path("endpoints/<str:endpoint>/delete/", _deed(endpoints.delete), name="endpoint-delete"),
    path("deliveries/<str:delivery>/", _page(deliveries.show), name="delivery"),
    path("deliveries/<str:delivery>/replay/", _deed(deliveries.replay), name="delivery-replay"),
]
