"""The map of the portal: the pages where a consumer looks after its endpoints, and what it may do there.

Everything but the door asks for a session first. `_page` and `_action` hand each view the consumer whose session it is,
and nothing else says who that is: a view can only look for things of the consumer it was given. A form does its work
once and answers with a redirect, or with a refusal that may be sent again.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import path, reverse
from django.utils import translation

from deliveries.pages.idempotent_forms import once, parent_of, refuse, visitor_of
from deliveries.portal import (
    brand,
    catalogue,
    catch_up,
    deliveries,
    endpoints,
    keys,
    language,
    notifications,
    replays,
    secrets,
    sessions,
    signatures,
    test_events,
)
from deliveries.portal.page import brand_of, closed, enter_as
from subscriptions.access import portal_visits
from subscriptions.audit import TooManyChanges

View = Callable[..., HttpResponse]


def policy(request: HttpRequest) -> str:
    """Script and style from our own files, nothing inline and nothing from elsewhere but the logo; in the frames that
    the settings name, else in nobody's."""
    images = f"'self' {brand_of(request).logo_origin}".strip()
    frames = " ".join(settings.PORTAL_FRAME_ORIGINS) or "'none'"
    return (
        f"default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src {images};"
        f" form-action 'self'; base-uri 'none'; frame-ancestors {frames}"
    )


def _page(view: View) -> View:
    return _inside(view, "GET", "HEAD")


def _action(view: View, *, sends: bool = False) -> View:
    return _inside(view, "POST", sends=sends)


def _form(view: View, *, sends: bool = False) -> View:
    return _inside(view, "GET", "HEAD", "POST", sends=sends)


def _inside(view: View, *methods: str, sends: bool = False) -> View:
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        session = sessions.session_of(request)
        visit = portal_visits.visitor(session)
        if visit is None:
            return closed(request)
        enter_as(request, visit)
        if request.method != "POST":
            return view(request, visit.consumer, **kwargs)
        here = request.path if "GET" in methods else parent_of(request.path)

        def work() -> HttpResponse:
            try:
                return view(request, visit.consumer, **kwargs)
            except TooManyChanges as error:
                return refuse(request, reverse("portal:home"), str(error))

        return once(
            request,
            work,
            visitor=visitor_of(session),
            here=here,
            sends=sends,
        )

    return _sealed(guarded, *methods)


def _sealed(view: View, *methods: str) -> View:
    """What holds for every answer. That a form carries its CSRF token, the middleware has seen before."""

    @wraps(view)
    def sealed(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        picked = language.picked(request)
        spoken = picked or language.of(request)
        with translation.override(spoken):
            answer = view(request, **kwargs) if request.method in methods else HttpResponseNotAllowed(methods)
        answer["Content-Language"] = spoken
        if picked:
            language.keep(answer, picked)
        answer["Content-Security-Policy"] = policy(request)
        # The older header knows no list of origins: where there is one, the policy speaks alone.
        answer.xframe_options_exempt = bool(settings.PORTAL_FRAME_ORIGINS)
        # To no other site; and where the address holds a token, without it. `no-referrer` would also make browsers send
        # `Origin: null`, which the CSRF check refuses.
        answer["Referrer-Policy"] = "strict-origin" if "token" in kwargs else "same-origin"
        answer.setdefault("Cache-Control", "no-store")
        return answer

    # On the map, for tests that go over all of them.
    sealed.methods = methods  # type: ignore[attr-defined]
    return sealed


urlpatterns = [
    path("", _page(endpoints.index), name="home"),
    path("enter/<str:token>/", _sealed(sessions.enter, "GET", "HEAD", "POST"), name="enter"),
    path("leave/", _sealed(sessions.leave, "POST"), name="leave"),
    path("left/", _sealed(sessions.left, "GET", "HEAD"), name="left"),
    path("brand/<str:colour>.css", _sealed(brand.stylesheet, "GET", "HEAD"), name="brand"),
    path("signatures/", _form(signatures.show), name="signatures"),
    path("events/", _page(catalogue.index), name="events"),
    path("events/<str:type>/", _page(catalogue.show), name="event-type"),
    path("endpoints/check-url/", _page(endpoints.check_url), name="check-url"),
    path("endpoints/new/", _form(secrets.new), name="endpoint-new"),
    path("endpoints/<str:endpoint>/", _page(endpoints.show), name="endpoint"),
    path("endpoints/<str:endpoint>/edit/", _form(endpoints.edit), name="endpoint-edit"),
    path("endpoints/<str:endpoint>/deliveries/", _page(deliveries.of_endpoint), name="endpoint-deliveries"),
    path("endpoints/<str:endpoint>/missed/", _form(replays.missed), name="missed"),
    path("endpoints/<str:endpoint>/pause/", _action(endpoints.pause), name="pause"),
    path("endpoints/<str:endpoint>/resume/", _action(endpoints.resume), name="resume"),
    path("endpoints/<str:endpoint>/rotate-secret/", _action(secrets.rotate), name="rotate-secret"),
    path("endpoints/<str:endpoint>/expire-secret/", _action(endpoints.expire_secret), name="expire-secret"),
    path("endpoints/<str:endpoint>/test/", _form(test_events.new, sends=True), name="test"),
    path("endpoints/<str:endpoint>/secret/<str:token>/", _page(secrets.show), name="secret"),
    path("endpoints/<str:endpoint>/verified/", _page(secrets.verified), name="verified"),
    path("endpoints/<str:endpoint>/check-up/", _action(endpoints.check, sends=True), name="check-up"),
    path("endpoints/<str:endpoint>/replay/", _action(endpoints.replay_dead), name="replay-dead"),
    path("endpoints/<str:endpoint>/delete/", _action(endpoints.delete), name="endpoint-delete"),
    path("deliveries/", _page(deliveries.index), name="deliveries"),
    path("deliveries/<str:delivery>/", _page(deliveries.show), name="delivery"),
    path("deliveries/<str:delivery>/replay/", _action(deliveries.replay), name="delivery-replay"),
    path("tests/<str:test>/", _page(test_events.show), name="sent-test"),
    path("catch-up/", _page(catch_up.show), name="catch-up"),
    path("keys/", _form(keys.index), name="keys"),
    path("keys/shown/<str:token>/", _page(keys.show), name="key-shown"),
    path("keys/<str:key>/revoke/", _action(keys.revoke), name="key-revoke"),
    path("notifications/", _form(notifications.index), name="notifications"),
    path("notifications/webhooks/", _action(notifications.listen), name="notification-webhooks"),
    path("notifications/<str:recipient>/change/", _action(notifications.change), name="recipient-change"),
    path("notifications/<str:recipient>/remove/", _action(notifications.remove), name="recipient-remove"),
    path("mail/<str:token>/", _sealed(notifications.answer, "GET", "HEAD", "POST"), name="mail"),
    path("replays/", _page(replays.index), name="replays"),
    path("replays/new/", _form(replays.new), name="replay-new"),
    path("replays/<str:replay>/", _page(replays.show), name="replay"),
    path("replays/<str:replay>/cancel/", _action(replays.cancel), name="replay-cancel"),
]
