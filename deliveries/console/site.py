"""The map of the console: every page and every action, and who may see or do it.

Permission is checked here, before a view runs: `_page` lets those in who may look, `_action` those who may act, by POST
only. A view never asks again, and none can forget to.
"""

from collections.abc import Callable
from functools import update_wrapper, wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse
from unfold.sites import UnfoldAdminSite

from deliveries.console import (
    audit,
    consumers,
    dead_letters,
    deliveries,
    endpoint_list,
    endpoints,
    event_types,
    events,
    find,
    keys,
    limits,
    overview,
    replays,
    secrets,
    signatures,
    switches,
    users,
)
from deliveries.console.accounts import login, sign_on
from deliveries.console.accounts import pages as accounts
from deliveries.console.page import actor_of, explain
from deliveries.health.models import Hold
from deliveries.pages.idempotent_forms import once, parent_of
from subscriptions.audit import record

View = Callable[..., HttpResponse]
Export = Callable[..., HttpResponseBase]

SEE = "deliveries.view_delivery"
OPERATE = "deliveries.operate"
MANAGE_USERS = "auth.change_user"
PAGE, ACTION, EXPORT, OWN = "page", "action", "export", "own"
# Everything from here, nothing inline but styles. Alpine.js, in the frame, compiles its attributes: hence unsafe-eval.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A page that would take longer than this is not worth the database's time; it says how to ask for less (milliseconds).
_PATIENCE_MS = 3000


def may_operate(user: User | AnonymousUser) -> bool:
    return user.has_perm(OPERATE)


class ConsoleSite(UnfoldAdminSite):
    login_form = login.LoginForm
    login_template = "console/login.html"

    def register(self, *args: Any, **options: Any) -> None:
        """Nothing: what changes something is a page of the console, with its actions and their audit entries."""

    def get_urls(self) -> list[URLPattern]:
        return [
            path("", self._page(overview.show), name="index"),
            path("find/", self._page(find.show), name="find"),
            path("dead-letters/", self._page(dead_letters.show), name="dead-letters"),
            path("dead-letters/replay/", self._page(replays.preview), name="replay-preview"),
            path("dead-letters/replay/start/", self._action(replays.start), name="replay-start"),
            path("replays/", self._page(replays.index), name="replays"),
            path("replays/<str:public_id>/", self._page(replays.show), name="replay"),
            path("replays/<str:public_id>/cancel/", self._action(replays.cancel), name="replay-cancel"),
            path("deliveries/", self._page(deliveries.index), name="deliveries"),
            path("deliveries/<str:public_id>/", self._page(deliveries.show), name="delivery"),
            path("deliveries/<str:public_id>/<str:action>/", self._action(deliveries.act), name="delivery-act"),
            path("events/", self._page(events.index), name="events"),
            path("events/<uuid:event_id>/", self._page(events.show), name="event"),
            path("events/<uuid:event_id>/resend/", self._action(events.resend), name="event-resend"),
            path("endpoints/", self._page(endpoint_list.index), name="endpoints"),
            path("endpoints/<str:public_id>/", self._page(endpoints.show), name="endpoint"),
            path(
                "endpoints/<str:public_id>/secret/<str:token>/", self._page(secrets.show_secret), name="endpoint-secret"
            ),
            path(
                "endpoints/<str:public_id>/test/", self._action(endpoints.send_test, sends=True), name="endpoint-test"
            ),
            path(
                "endpoints/<str:public_id>/check-up/",
                self._action(endpoints.run_check_up, sends=True),
                name="endpoint-check-up",
            ),
            path("endpoints/<str:public_id>/limits/", self._page(limits.show), name="endpoint-limits"),
            path(
                "endpoints/<str:public_id>/limits/change/", self._action(limits.change), name="endpoint-limits-change"
            ),
            path("endpoints/<str:public_id>/<str:action>/", self._action(endpoints.act), name="endpoint-act"),
            path("consumers/", self._page(consumers.index), name="consumers"),
            path("consumers/<str:public_id>/", self._page(consumers.show), name="consumer"),
            path("consumers/<str:public_id>/edit/", self._page(consumers.edit), name="consumer-edit"),
            path("consumers/<str:public_id>/edit/save/", self._action(consumers.save), name="consumer-save"),
            path("consumers/<str:public_id>/portal-link/", self._action(secrets.make_link), name="portal-link"),
            path(
                "consumers/<str:public_id>/portal-link/<str:token>/",
                self._page(secrets.show_link),
                name="consumer-link",
            ),
            path("switches/", self._page(switches.show), name="switches"),
            path("switches/<str:turn>/", self._action(switches.turn), name="switch"),
            path("limits/", self._page(limits.index), name="limits"),
            path("keys/", self._page(keys.index), name="keys"),
            path("keys/shown/<str:token>/", self._page(keys.show_new), name="key-shown"),
            path("keys/<str:public_id>/", self._page(keys.show), name="key"),
            path("keys/<str:public_id>/revoke/", self._action(keys.revoke), name="key-revoke"),
            path("new-key/", self._page(keys.new, needs=OPERATE), name="key-new"),
            path("new-key/make/", self._action(keys.make), name="key-make"),
            path("event-types/", self._page(event_types.index), name="event-types"),
            path("event-types/<str:name>/", self._page(event_types.show), name="event-type"),
            path("event-types/<str:name>/<str:action>/", self._action(event_types.act), name="event-type-act"),
            # Beside them: an event type may be called `new`.
            path("new-event-type/", self._page(event_types.new, needs=OPERATE), name="event-type-new"),
            path("new-event-type/declare/", self._action(event_types.declare), name="event-type-declare"),
            path("signatures/", self._page(signatures.index), name="signatures"),
            path("signatures/<str:name>/", self._page(signatures.show), name="signature"),
            path("signatures/<str:name>/<str:action>/", self._action(signatures.act), name="signature-act"),
            path("new-signature/", self._page(signatures.new, needs=OPERATE), name="signature-new"),
            path("new-signature/make/", self._action(signatures.make), name="signature-make"),
            path("users/", self._page(users.index, needs=MANAGE_USERS), name="users"),
            path("users/<int:user_id>/", self._page(users.show, needs=MANAGE_USERS), name="user"),
            path(
                "users/<int:user_id>/password/<str:token>/",
                self._page(users.show_password, needs=MANAGE_USERS),
                name="user-password",
            ),
            path("users/<int:user_id>/<str:action>/", self._action(users.act, needs=MANAGE_USERS), name="user-act"),
            path("new-user/", self._page(users.new, needs=MANAGE_USERS), name="user-new"),
            path("new-user/add/", self._action(users.add, needs=MANAGE_USERS), name="user-add"),
            path("audit/", self._page(audit.show), name="audit"),
            path("audit/export/", self._export(audit.export), name="audit-export"),
            path("account/", self._own(accounts.show, "GET"), name="account"),
            path("account/second-factor/", self._own(accounts.act, "POST"), name="second-factor"),
            path("account/recovery-codes/<str:token>/", self._own(accounts.codes, "GET"), name="recovery-codes"),
            path("sign-on/", accounts.sign_on_start, name="sign-on"),
            path("sign-on/callback/", accounts.sign_on_finish, name="sign-on-callback"),
            *super().get_urls(),
        ]

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context: dict[str, Any] = super().each_context(request)
        if request.user.is_authenticated:
            context["holds"] = list(Hold.objects.select_related("consumer").order_by("-consumer_id"))
            context["is_all_held"] = any(hold.consumer_id is None for hold in context["holds"])
            context["may_operate"] = may_operate(request.user)
        return context

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Every page under /admin/, Django's own forms too: with the policy, and a form does its work once."""
        inner: View = super().admin_view(_forms_once(view), cacheable)

        @wraps(inner)
        def with_policy(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if login.must_set_up_second_factor(request):
                return HttpResponseRedirect(reverse("admin:account"))
            return _with_policy(inner(request, *args, **kwargs))

        return with_policy

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST" and not settings.CONSOLE_PASSWORD_LOGIN:
            raise PermissionDenied
        context = {
            "sign_on_is_on": sign_on.is_on(), "sign_on_name": settings.OIDC_NAME,
            "sign_on_query": urlencode({"next": request.GET.get("next", "")}),
            "password_login": settings.CONSOLE_PASSWORD_LOGIN,
        }  # fmt: skip
        answer = super().login(request, {**context, **(extra_context or {})})
        return _with_policy(login.finish(request, answer))

    @transaction.atomic
    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Of the user's own password. What is not answered with a redirect was refused."""
        response: HttpResponse = super().password_change(request, extra_context)
        if request.method == "POST" and response.status_code == 302:
            name = request.user.get_username()
            record(actor=actor_of(request), action="user.password_changed", target=name)
        return response

    def _page(self, view: View, *, needs: str = SEE) -> View:
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method not in ("GET", "HEAD"):
                return HttpResponseNotAllowed(["GET", "HEAD"])
            if not request.user.has_perm(needs):
                raise PermissionDenied
            try:
                return _patiently(view, request, *args, **kwargs)
            except OperationalError as error:
                if "statement timeout" not in str(error):
                    raise
                return explain(
                    request,
                    title="That would take too long",
                    text="The database was asked to look through too much for one page. Narrow it down: one endpoint,"
                    " one reason, or a shorter time.",
                    status=503,
                )

        return self._admin_view(guarded, PAGE)

    def _export(self, view: Export) -> View:
        """A file, written as it is read: outside the time limit of a page, so the view bounds it itself."""

        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            if request.method not in ("GET", "HEAD"):
                return HttpResponseNotAllowed(["GET", "HEAD"])
            if not request.user.has_perm(SEE):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return self._admin_view(guarded, EXPORT)

    def _action(self, view: View, *, needs: str = OPERATE, sends: bool = False) -> View:
        """`sends` says that it waits for a receiver's answer."""

        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.has_perm(needs):
                raise PermissionDenied
            if request.method != "POST":
                return HttpResponseNotAllowed(["POST"])
            return view(request, *args, **kwargs)

        guarded.form_is_on = parent_of  # type: ignore[attr-defined]
        guarded.sends = sends  # type: ignore[attr-defined]
        return self._admin_view(guarded, ACTION)

    def _own(self, view: View, method: str) -> View:
        """For everybody who may log in, about their own account."""

        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method != method:
                return HttpResponseNotAllowed([method])
            return view(request, *args, **kwargs)

        guarded.form_is_on = parent_of  # type: ignore[attr-defined]
        return self._admin_view(guarded, OWN)

    def _admin_view(self, view: View, kind: str) -> View:
        """Logged in as staff, never cached, CSRF checked. Its kind is on the map for tests that go over all of them."""
        wrapped = self.admin_view(view)
        wrapped.console_kind = kind  # type: ignore[attr-defined]
        return wrapped


def _forms_once(view: View) -> View:
    """Django's own forms are on the page that takes them; those of a action are on the page of what it is done to."""

    def with_forms_once(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        form_is_on: Callable[[str], str] = getattr(view, "form_is_on", str)
        return once(
            request,
            lambda: view(request, *args, **kwargs),
            # The user, not the session: changing a password gives that a new name.
            visitor=f"user:{request.user.pk}",
            here=form_is_on(request.path),
            sends=getattr(view, "sends", False),
        )

    return update_wrapper(with_forms_once, view)


def _with_policy(response: HttpResponse) -> HttpResponse:
    response["Content-Security-Policy"] = POLICY
    return response


@transaction.atomic
def _patiently(view: View, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """One snapshot for the whole page, and an end to any statement that takes too long."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {_PATIENCE_MS}")
    response = view(request, *args, **kwargs)
    # Rendered here, where the limit holds: a template may be what asks.
    render: Callable[[], Any] | None = getattr(response, "render", None)
    if render is not None:
        render()
    return response
