"""Who hears when an endpoint fails, is about to be disabled, was disabled or works again: by mail, and by webhook to
another endpoint. The reader of a mail says yes or stops it by a link in it, without a session."""

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from deliveries.actions import endpoints as endpoint_actions
from deliveries.portal.endpoints import find
from deliveries.portal.page import actor, back_to, missing, render
from subscriptions import mail_recipients
from subscriptions.actions import notifications as actions
from subscriptions.event_types import NOTIFICATION_TYPES
from subscriptions.mail_recipients import TooManyRecipients
from subscriptions.models import Consumer, Endpoint, MailKind

_KINDS = {
    MailKind.FAILING: gettext_noop("has failed for a day"),
    MailKind.DISABLING: gettext_noop("will be disabled in a day"),
    MailKind.DISABLED: gettext_noop("was disabled"),
    MailKind.RECOVERED: gettext_noop("works again"),
}
_FAMILY = "notification.*"
_MOST_SHOWN = 200


def index(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    problem = ""
    if request.method == "POST":
        added = _add(request, consumer)
        if isinstance(added, HttpResponse):
            return added
        problem = added
    living = list(Endpoint.objects.filter(consumer=consumer, deleted_at__isnull=True).order_by("id")[:_MOST_SHOWN])
    return render(
        request,
        consumer,
        "notifications.html",
        title=_("Notifications"),
        section="Notifications",
        recipients=list(mail_recipients.of(consumer)),
        kinds=_KINDS,
        endpoints=living,
        listening=[(each, _heard_by(each)) for each in living if _heard_by(each)],
        can_ask=bool(settings.PUBLIC_URL),
        problem=problem,
        typed=request.POST.get("email", "")[:254] if problem else "",
        status=400 if problem else 200,
    )


def change(request: HttpRequest, consumer: Consumer, recipient: str) -> HttpResponse:
    found = mail_recipients.find(consumer, recipient)
    if found is None:
        return missing(request, consumer, "address")
    actions.change(found, kinds=_chosen(request), actor=actor(request), why="")
    return back_to(request, reverse("portal:notifications"), done=_("Saved."))


def remove(request: HttpRequest, consumer: Consumer, recipient: str) -> HttpResponse:
    here = reverse("portal:notifications")
    found = mail_recipients.find(consumer, recipient)
    if found is None:
        return missing(request, consumer, "address")
    if not actions.remove(found, actor=actor(request), why=""):
        return back_to(
            request, here, refused=_("Whoever sends you webhooks named this contact. Choose nothing for it.")
        )
    return back_to(request, here, done=_("Removed. It gets no more mail."))


def listen(request: HttpRequest, consumer: Consumer) -> HttpResponse:
    """The types of what was picked, and no others of ours, are among those that the endpoint asks for."""
    found = find(consumer, request.POST.get("endpoint", "")[:64])
    if found is None:
        return missing(request, consumer, "endpoint")
    here, picked = reverse("portal:notifications"), [NOTIFICATION_TYPES[MailKind(kind)] for kind in _chosen(request)]
    ours = {_FAMILY, *NOTIFICATION_TYPES.values()}
    wanted = [*[each for each in found.event_types if each not in ours], *picked]
    if not wanted:
        return back_to(request, here, refused=_("It asks for nothing else. Delete the endpoint instead."))
    if wanted != found.event_types:
        endpoint_actions.update(found, {"event_types": wanted}, actor=actor(request), why="")
    return back_to(request, here, done=_("Saved. It hears of your other endpoints.") if picked else _("Saved."))


def answer(request: HttpRequest, token: str) -> HttpResponse:
    """A GET only asks: mail scanners follow links, too. Whoever holds the link reads that mailbox."""
    found = mail_recipients.by_token(token)
    if found is None:
        return render(
            request,
            None,
            "explain.html",
            title=_("There is nothing to stop"),
            text=_("This address is no longer on any list of ours."),
            status=404,
        )
    if request.method == "POST":
        if request.POST.get("answer") == "yes":
            actions.confirm(found)
        elif request.POST.get("answer") == "no":
            actions.stop(found)
        return HttpResponseRedirect(request.path)
    asks_for = found.consumer.name or str(found.consumer)
    return render(request, None, "mail.html", title=_("Mail about endpoints"), recipient=found, asks_for=asks_for)


def _add(request: HttpRequest, consumer: Consumer) -> HttpResponse | str:
    """The way back to the page, or why nothing was added."""
    email, kinds = request.POST.get("email", "").strip(), _chosen(request)
    if not settings.PUBLIC_URL:
        return _("This deployment cannot ask an address for its consent. Ask whoever sends you webhooks.")
    try:
        validate_email(email)
    except ValidationError:
        return _("This is no address for mail.")
    if len(email) > 254:
        return _("This address is too long.")
    if not kinds:
        return _("Pick what the address hears of.")
    try:
        added = actions.add(consumer, email=email, kinds=kinds, actor=actor(request), why="")
    except TooManyRecipients:
        most = settings.MAX_MAIL_RECIPIENTS_PER_CONSUMER
        why = _("At most %(most)s addresses, and as many new ones a day. Remove one, or come back tomorrow.")
        return why % {"most": most}
    if added is None:
        return _("This address is on the list already.")
    return back_to(request, reverse("portal:notifications"), done=_("Added. We have asked it for its consent by mail."))


def _chosen(request: HttpRequest) -> list[str]:
    """In our order, each once; whatever else was sent is passed over."""
    given = request.POST.getlist("kinds")
    return [kind.value for kind in MailKind if kind.value in given]


def _heard_by(endpoint: Endpoint) -> list[str]:
    everything = _FAMILY in endpoint.event_types
    return [kind for kind, type in NOTIFICATION_TYPES.items() if everything or type in endpoint.event_types]
