"""Users and roles, for administrators: who may look, who may act, and who needs help to get in again."""

from collections.abc import Callable

from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from deliveries.actions import NothingDone
from deliveries.console.accounts import users as actions
from deliveries.console.accounts.models import SecondFactor, SignOnIdentity
from deliveries.console.accounts.users import ROLES, role_of
from deliveries.console.page import actor_of, back_to, hand_over, missing, render, show_once, why_of
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry

_SHOWN = 200
_ABOUT = "new password"

Action = Callable[[User, Actor, str], None]
ACTIONS: dict[str, tuple[Action, str]] = {
    "activate": (lambda user, actor, why: actions.set_active(user, True, actor=actor, why=why), "may log in again."),
    "deactivate": (lambda user, actor, why: actions.set_active(user, False, actor=actor, why=why), "is out."),
    "reset-second-factor": (
        lambda user, actor, why: actions.reset_second_factor(user, actor=actor, why=why),
        "logs in with the password alone, and can set up a second factor again.",
    ),
}
ALL_ACTIONS = {*ACTIONS, "role", "reset-password"}


def index(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()
    rows = User.objects.prefetch_related("groups").select_related("secondfactor").order_by("username")
    if text:
        rows = rows.filter(Q(username__icontains=text) | Q(email__icontains=text))
    found = list(rows[: _SHOWN + 1])
    return render(
        request,
        "users.html",
        title="Users and roles",
        users=[{"user": user, "role": role_of(user), "has_factor": _has_factor(user)} for user in found[:_SHOWN]],
        is_more=len(found) > _SHOWN,
        q=text,
        roles=ROLES,
    )


def show(request: HttpRequest, user_id: int) -> HttpResponse:
    user = _find(user_id)
    if user is None:
        return missing(request, "user")
    factor = SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).first()
    name = user.get_username()
    return render(
        request,
        "user.html",
        title="User",
        shown_user=user,
        role=role_of(user),
        groups=[group.name for group in user.groups.all()],
        roles=ROLES,
        factor=factor,
        identity=SignOnIdentity.objects.filter(user=user).first(),
        problem=_refusal(request, user),
        done=AuditEntry.objects.filter(actor_kind="user", actor_id=name).order_by("-id")[:10],
        entries=AuditEntry.objects.filter(target=name, action__startswith="user.").order_by("-id")[:10],
    )


def new(request: HttpRequest) -> HttpResponse:
    return _form(request, {"role": "Read-only"})


def add(request: HttpRequest) -> HttpResponse:
    typed = {name: request.POST.get(name, "").strip() for name in ("name", "email", "role", "why")}
    problem = _problem(request, typed)
    if problem:
        return _form(request, typed, problem=problem)
    try:
        with transaction.atomic():
            user, password = actions.add(
                name=typed["name"], email=typed["email"], role=typed["role"], actor=actor_of(request),
                why=why_of(request),
            )  # fmt: skip
            return _show_password(request, user, password)
    except actions.UserNameTaken:
        return _form(request, typed, problem="There is a user of this name.")


def act(request: HttpRequest, user_id: int, action: str) -> HttpResponse:
    user = _find(user_id)
    if user is None or action not in ALL_ACTIONS:
        return missing(request, "user" if user is None else "action")
    here, actor, why = reverse("admin:user", args=[user_id]), actor_of(request), why_of(request)
    if refusal := _refusal(request, user):
        return back_to(request, here, refused=refusal)
    try:
        if action == "role":
            return _give_role(request, user, here)
        if action == "reset-password":
            with transaction.atomic():
                return _show_password(request, user, actions.reset_password(user, actor=actor, why=why))
        run, done = ACTIONS[action]
        run(user, actor, why)
    except NothingDone as error:
        return back_to(request, here, refused=str(error))
    return back_to(request, here, done=f"{user.get_username()} {done}")


def show_password(request: HttpRequest, user_id: int, token: str) -> HttpResponse:
    user = _find(user_id)
    if user is None:
        return missing(request, "user")
    about = f"{_ABOUT} {user_id}"
    return show_once(request, "user_password.html", token, about=about, title="New password", shown_user=user)


def _give_role(request: HttpRequest, user: User, here: str) -> HttpResponse:
    role = request.POST.get("role", "")
    if problem := _role_problem(request, role):
        return back_to(request, here, refused=problem)
    actions.give_role(user, role, actor=actor_of(request), why=why_of(request))
    return back_to(request, here, done=f"{user.get_username()} is of {role} now.")


def _show_password(request: HttpRequest, user: User, password: str) -> HttpResponse:
    return hand_over(request, "user-password", str(user.pk), about=f"{_ABOUT} {user.pk}", password=password)


def _form(request: HttpRequest, typed: dict[str, str], *, problem: str = "") -> HttpResponse:
    status = 400 if problem else 200
    return render(request, "user_new.html", title="New user", typed=typed, roles=ROLES, problem=problem, status=status)


def _problem(request: HttpRequest, typed: dict[str, str]) -> str:
    if not 1 <= len(typed["name"]) <= 150:
        return "A name has 1 to 150 characters."
    try:
        UnicodeUsernameValidator()(typed["name"])
        if typed["email"]:
            validate_email(typed["email"])
    except ValidationError as error:
        return " ".join(error.messages)
    if len(typed["email"]) > 254:
        return "That address is too long."
    return _role_problem(request, typed["role"])


def _role_problem(request: HttpRequest, role: str) -> str:
    if role not in ROLES:
        return "Pick a role."
    if role == actions.ADMINISTRATORS and not _is_administrator(request):
        return "Only an administrator makes another one."
    return ""


def _refusal(request: HttpRequest, user: User) -> str:
    """Why somebody who may manage users may not touch this one."""
    if user.pk == request.user.pk:
        return "This is you. Somebody else has to change your role or let you out."
    if user.is_superuser and not _is_administrator(request):
        return "Only an administrator changes an administrator."
    return ""


def _is_administrator(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


def _has_factor(user: User) -> bool:
    factor: SecondFactor | None = getattr(user, "secondfactor", None)
    return factor is not None and factor.confirmed_at is not None


def _find(user_id: int) -> User | None:
    return User.objects.prefetch_related("groups").filter(pk=user_id).first() if user_id < 2**31 else None
