"""A form does its work once, however often it is sent: by a double click, a reload, or the back button.

Every form carries a random `form_id` beside its CSRF token (deliveries/templatetags/form_tokens.py). It is an
idempotency key within the visitor's session: the work and the redirect it ended in are committed together, and the same
form sent again is answered with that redirect. A form that was refused is not remembered, so it may be sent again.
"""

import hashlib
import re
from collections.abc import Callable

from django.contrib import messages
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext, gettext_noop
from psycopg.errors import LockNotAvailable

from subscriptions import idempotency
from subscriptions.api.views import operation_of
from subscriptions.idempotency import Scope, StoredAnswer

FIELD = "form_id"

_FORM_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
_AGAIN = gettext_noop("This form had been sent before. Its work was done once.")
_OTHER_VALUES = gettext_noop(
    "This form had been sent before, with other values. Nothing was done now; here is a fresh page."
)
_BUSY = gettext_noop(
    "The same form is still under way, or somebody else holds what it would change. Look again in a moment."
)

Work = Callable[[], HttpResponse]


class RefusedRedirect(HttpResponseRedirect):
    """Back to a page that says why nothing was done."""


class _NotDone(Exception):
    """The work was refused: undo what it wrote, and remember nothing."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__()
        self.response = response


def once(request: HttpRequest, work: Work, *, visitor: str, here: str, sends: bool = False) -> HttpResponse:
    """What `work` answers. `here` is the page that holds the form; `sends` says that the work waits for a receiver."""
    scope = _scope(request, visitor)
    if scope is None:
        return work()
    try:
        if sends:
            return _remember_first(request, scope, work, here)
        return _remember_with(request, scope, work)
    except _NotDone as refused:
        return refused.response
    except idempotency.KeyReused:
        return refuse(request, here, gettext(_OTHER_VALUES))
    except idempotency.InProgress:
        return refuse(request, here, gettext(_BUSY))
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return refuse(request, here, gettext(_BUSY))
        raise


def refuse(request: HttpRequest, url: str, why: str) -> HttpResponse:
    messages.warning(request, why)
    return RefusedRedirect(url)


def visitor_of(session: str) -> str:
    """How forms and hand-overs name a session, without holding what opens it."""
    return f"visitor:{hashlib.sha256(session.encode(errors='replace')).hexdigest()}"


def parent_of(path: str) -> str:
    """The page of a thing, from the address of something that is done to it: `…/ep_1/pause/` → `…/ep_1/`."""
    return path.rstrip("/").rpartition("/")[0] + "/"


def _remember_with(request: HttpRequest, scope: Scope, work: Work) -> HttpResponse:
    done: list[HttpResponse] = []

    def remembered() -> StoredAnswer:
        response = work()
        if response.status_code not in (302, 303) or isinstance(response, RefusedRedirect):
            raise _NotDone(response)
        done.append(response)
        return StoredAnswer(status_code=302, body=response.headers["Location"].encode())

    answer = idempotency.once(scope, remembered)
    return _sent_before(request, answer) if answer.replayed else done[-1]


def _remember_first(request: HttpRequest, scope: Scope, work: Work, here: str) -> HttpResponse:
    """No transaction is open while a receiver takes its time, so the form counts as sent from the start."""
    answer = idempotency.once(scope, lambda: StoredAnswer(status_code=302, body=here.encode()))
    return _sent_before(request, answer) if answer.replayed else work()


def _sent_before(request: HttpRequest, answer: StoredAnswer) -> HttpResponse:
    messages.info(request, gettext(_AGAIN))
    return HttpResponseRedirect(answer.body.decode())


def _scope(request: HttpRequest, visitor: str) -> Scope | None:
    """None for a form without an id: one that a program made up."""
    form_id = request.POST.get(FIELD, "")
    if _FORM_ID.fullmatch(form_id) is None:
        return None
    given = {name: request.POST.getlist(name) for name in request.POST if name not in (FIELD, "csrfmiddlewaretoken")}
    return Scope(
        owner=visitor,
        operation=operation_of("form", request.path),
        key=form_id,
        # Keyed: a form may hold a password, and a bare hash of one is quickly guessed from a copy of the database.
        fingerprint=salted_hmac(
            "deliveries.pages.idempotent_forms", idempotency.fingerprint(given), algorithm="sha256"
        ).digest(),
    )
