"""“Your account”: the second factor is set up and removed here. And the two addresses of single sign-on."""

import logging
from typing import cast

import segno
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from deliveries.console import errors
from deliveries.console.accounts import second_factor, sign_on, throttle
from deliveries.console.accounts.login import SECOND_FACTOR, SIGNED_ON
from deliveries.console.accounts.models import SecondFactor
from deliveries.console.page import actor_of, back_to, explain, render, visitor
from deliveries.pages.preview import answer_preview
from subscriptions.audit import record
from subscriptions.secrets import handover

_ISSUER = "Webhooks console"
_ABOUT = "recovery codes"

logger = logging.getLogger(__name__)


def show(request: HttpRequest) -> HttpResponse:
    user = _user(request)
    factor = SecondFactor.objects.filter(user=user).first()
    pending = factor if factor is not None and factor.confirmed_at is None else None
    return render(
        request,
        "account.html",
        title="Your account",
        signed_on=bool(request.session.get(SIGNED_ON)),
        factor=factor,
        pending=pending,
        secret=" ".join(_fours(second_factor.secret_of(pending))) if pending else "",
        picture=_picture(pending) if pending else "",
        codes_left=len(factor.recovery_hashes) if factor else 0,
    )


def act(request: HttpRequest) -> HttpResponse:
    """Begin, confirm or remove."""
    step, user, code = request.POST.get("step", ""), _user(request), request.POST.get("code", "")
    if step == "confirm":
        return _confirm(request, user, code)
    if step == "remove":
        return _remove(request, user, code)
    if step == "begin":
        second_factor.begin(user)
    return HttpResponseRedirect(reverse("admin:account"))


def codes(request: HttpRequest, token: str) -> HttpResponse:
    """The recovery codes, once."""
    preview = answer_preview(request)
    if preview is not None:
        return preview
    content = handover.take(token, visitor=visitor(request), about=_ABOUT)
    if content is None:
        return explain(
            request,
            title="These codes were shown already",
            text="They are shown once. Remove the second factor and set it up again to get new ones.",
        )
    return render(request, "recovery_codes.html", title="Recovery codes", codes=content["codes"])


def sign_on_start(request: HttpRequest) -> HttpResponse:
    if not sign_on.is_on():
        raise Http404
    try:
        return sign_on.start(request)
    except sign_on.TooMany:
        return errors.alone(
            request, 429, "Too many sign-ons from your address", "Wait some minutes, then try again."
        )  # fmt: skip
    except sign_on.Unavailable as error:
        return _sign_on_failed(request, error, status=502)


def sign_on_finish(request: HttpRequest) -> HttpResponse:
    if not sign_on.is_on():
        raise Http404
    try:
        return sign_on.finish(request)
    except sign_on.NotAdmitted:
        return errors.alone(
            request, 403, "You have no access to this console",
            "Your account is known, but none of its groups may enter. Ask whoever runs this platform.",
        )  # fmt: skip
    except sign_on.SignOnRefused as error:
        return _sign_on_failed(request, error, status=400)
    except sign_on.Unavailable as error:
        return _sign_on_failed(request, error, status=502)


def _sign_on_failed(request: HttpRequest, error: Exception, *, status: int) -> HttpResponse:
    # In one line, whatever somebody wrote into the address.
    logger.warning("sign_on.failed", extra={"fields": {"error": " ".join(str(error).split())[:500]}})
    return errors.alone(
        request, status, "Signing on did not work",
        "Go back to the login page and try once more. If it stays like this, the web process's log says why.",
    )  # fmt: skip


@transaction.atomic
def _confirm(request: HttpRequest, user: User, code: str) -> HttpResponse:
    found = second_factor.confirm(user, code)
    if found is None:
        return _back(request, refused="This code does not fit. Enter the one your app shows right now.")
    record(actor=actor_of(request), action="user.second_factor_set", target=user.get_username())
    request.session[SECOND_FACTOR] = True
    token = handover.put({"codes": found}, visitor=visitor(request), about=_ABOUT)
    return HttpResponseRedirect(reverse("admin:recovery-codes", args=[token]))


def _remove(request: HttpRequest, user: User, code: str) -> HttpResponse:
    """One that was confirmed wants a code once more, of few guesses: an unlocked screen is not enough."""
    is_on = second_factor.of(user) is not None
    guesses = [throttle.Bucket(f"code:{user.pk}", settings.LOGIN_FAILURES_PER_ACCOUNT)]
    if is_on and not throttle.take(guesses):
        return _back(request, refused="Too many wrong codes. Wait some minutes, then try again.")
    if is_on and not second_factor.check(user, code):
        return _back(request, refused="This code does not fit, so nothing was changed.")
    with transaction.atomic():
        second_factor.remove(user)
        if is_on:
            record(actor=actor_of(request), action="user.second_factor_removed", target=user.get_username())
    if not is_on:
        return _back(request)
    throttle.give_back(guesses)
    request.session.pop(SECOND_FACTOR, None)
    return _back(request, done="The second factor is off. You log in with your password alone.")


def _back(request: HttpRequest, **said: str) -> HttpResponse:
    return back_to(request, reverse("admin:account"), stay=True, **said)


def _picture(factor: SecondFactor) -> str:
    """The QR code as an image that the page's policy allows: no script, nothing from elsewhere."""
    code = segno.make(second_factor.setup_uri(factor, issuer=_ISSUER), error="m")
    return str(code.svg_data_uri(scale=5, border=4, dark="#111", light="#fff"))


def _fours(secret: str) -> list[str]:
    return [secret[start : start + 4] for start in range(0, len(secret), 4)]


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)
