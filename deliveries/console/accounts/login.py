"""The console's login form: throttle, then password, then second factor."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.forms import AuthenticationForm
from unfold.widgets import UnfoldAdminTextInputWidget

from deliveries.console.accounts import device, second_factor, throttle

# In the session: how its user showed who they are.
SECOND_FACTOR, SIGNED_ON = "second_factor", "signed_on"
# On the request, until the login is finished.
_THROTTLED, _CODE_GIVEN = "_login_throttled", "_login_code_given"


class LoginForm(AuthenticationForm):
    """Django's, with a limit on failures and a field for a one-time code."""

    code = forms.CharField(
        required=False,
        max_length=64,
        label="One-time code",
        help_text="From your authenticator app, or a recovery code. Leave it empty if you have not set one up.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code", "inputmode": "text"}),
    )

    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username") or ""
        request: HttpRequest = self.request
        counted = throttle.buckets(
            username=username, address=client_address(request), device=device.device_of(request, username)
        )
        if not throttle.take(counted):
            setattr(request, _THROTTLED, True)
            raise ValidationError("Too many failed logins. Wait some minutes, then try again.", code="throttled")
        cleaned: dict[str, Any] = super().clean()
        self._check_code(self.get_user())
        throttle.give_back(counted)
        return cleaned

    def _check_code(self, user: User) -> None:
        if second_factor.of(user) is None:
            return
        code = self.cleaned_data.get("code") or ""
        if not code:
            raise ValidationError("Enter the one-time code of your authenticator app as well.", code="code_required")
        if not second_factor.check(user, code):
            raise ValidationError("This code is wrong, or was used already. Wait for the next one.", code="code_wrong")
        # Into the session once that is this user's: a login replaces the session of whoever was in before.
        setattr(self.request, _CODE_GIVEN, True)


def finish(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """What the answer to a login needs beside Django's own: a status for the throttle, a cookie for the browser."""
    if getattr(request, _THROTTLED, False):
        response.status_code = 429
        response["Retry-After"] = str(round(throttle.WINDOW_SECONDS / settings.LOGIN_FAILURES_PER_ACCOUNT))
    elif request.method == "POST" and response.status_code == 302 and isinstance(request.user, User):
        if getattr(request, _CODE_GIVEN, False):
            request.session[SECOND_FACTOR] = True
        device.remember(request, response, request.user)
    return response


def must_set_up_second_factor(request: HttpRequest) -> bool:
    """Whether this session may see nothing but the page where a second factor is set up."""
    if not settings.CONSOLE_REQUIRE_SECOND_FACTOR or not request.user.is_authenticated:
        return False
    if request.session.get(SECOND_FACTOR) or request.session.get(SIGNED_ON):
        return False
    open_paths = ("admin:account", "admin:second-factor", "admin:logout", "admin:password_change")
    return not any(request.path.startswith(reverse(name)) for name in open_paths)


def client_address(request: HttpRequest) -> str:
    """Where the request came from. Of X-Forwarded-For only what our own proxies wrote counts."""
    proxies = settings.PROXIES_IN_FRONT
    forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()]
    if proxies and len(forwarded) >= proxies:
        return str(forwarded[-proxies])
    return str(request.META.get("REMOTE_ADDR", ""))
