"""What every page of the console shares: its frame, its not-found, and the reason that comes with a action."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from deliveries.pages.idempotent_forms import refuse, visitor_of
from deliveries.pages.preview import answer_preview
from subscriptions.audit import LONGEST_WHY, Actor
from subscriptions.secrets import handover


def render(request: HttpRequest, template: str, *, title: str, status: int = 200, **context: Any) -> TemplateResponse:
    frame = admin.site.each_context(request)
    return TemplateResponse(
        request, f"console/{template}", {**frame, "title": title, "is_fullwidth": "1", **context}, status=status
    )


def explain(request: HttpRequest, *, title: str, text: str, status: int = 404) -> TemplateResponse:
    return render(request, "explain.html", title=title, text=text, status=status)


def missing(request: HttpRequest, what: str) -> TemplateResponse:
    return explain(
        request,
        title=f"There is no such {what}",
        text="The id may be mistyped, or its retention has ended. Ids begin with evt_, dlv_, ep_, con_ or rpl_.",
    )


def actor_of(request: HttpRequest) -> Actor:
    return Actor.of_user(request.user.get_username())


def why_of(request: HttpRequest) -> str:
    """The field is called `why`: `reason` is the dead letters' filter, which a replay's form carries too."""
    return " ".join(request.POST.get("why", "").replace("\0", "").split())[:LONGEST_WHY]


def visitor(request: HttpRequest) -> str:
    """How hand-overs name the session of who is logged in."""
    return visitor_of(request.session.session_key or "")


def back_to(request: HttpRequest, url: str, *, done: str = "", refused: str = "", stay: bool = False) -> HttpResponse:
    """To the page it came from if the form says so and it need not `stay`, with a line that says what was done or why
    nothing was."""
    wanted = request.POST.get("next", "")
    if not stay and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None):
        url = wanted
    if refused:
        return refuse(request, url, refused)
    if done:
        messages.success(request, done)
    return HttpResponseRedirect(url)


def hand_over(request: HttpRequest, page: str, *names: str, about: str, **content: str) -> HttpResponse:
    """To the page that shows this once. In the transaction of what made it."""
    token = handover.put(content, visitor=visitor(request), about=about)
    return back_to(request, reverse(f"admin:{page}", args=[*names, token]), stay=True)


def show_once(request: HttpRequest, template: str, token: str, *, about: str, **context: Any) -> HttpResponse:
    """The only page that holds it: the first time that it is loaded, in the session that made it."""
    response = answer_preview(request)
    if response is None:
        shown = handover.take(token, visitor=visitor(request), about=about)
        response = render(request, template, shown=shown, **context)
    response["Cache-Control"] = "no-store"
    # The address holds a token, which is for nobody's log.
    response["Referrer-Policy"] = "strict-origin"
    return response


def first_error(errors: Any) -> str:
    """One sentence of what a shape of the API found wrong, and where: `max in flight: …`."""
    place = []
    while isinstance(errors, dict | list) and errors:
        name, errors = next(iter(errors.items() if isinstance(errors, dict) else enumerate(errors)))
        if isinstance(name, str) and name != "non_field_errors":
            place.append(name.replace("_", " "))
    return ": ".join([*place[-1:], str(errors)])
