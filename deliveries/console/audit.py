"""Who changed what, to how many, and why: as a page, and as a file for a spreadsheet."""

import csv
from collections.abc import Iterable, Iterator
from datetime import UTC

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils import timezone

from deliveries.console.page import explain, render
from deliveries.pages import keyset
from subscriptions import ids
from subscriptions.audit import Wanted, entries
from subscriptions.models import ActorKind, AuditEntry
from subscriptions.reading.times import BadTime, read_time

# What one file may hold: whoever needs more narrows it down, or reads the API page by page.
MOST_ROWS = 100_000
_FILTERS = ("actor", "action", "target", "since", "until")
_HEAD = ("id", "at", "actor", "actor_kind", "actor_id", "action", "target", "consumer", "count", "detail", "why")
# A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def show(request: HttpRequest) -> HttpResponse:
    values = _values(request)
    wanted, problem = _wanted(values)
    page = keyset.page(request, entries(wanted)) if wanted else keyset.ListPage[AuditEntry]([], None, None)
    query = request.GET.copy()
    for name in ("before", "after"):
        query.pop(name, None)
    return render(
        request,
        "audit.html",
        title="Audit log",
        page=page,
        values=values,
        is_narrowed=any(values.values()),
        kinds=ActorKind.values,
        problem=problem,
        query=query.urlencode(),
        most_rows=MOST_ROWS,
    )


def export(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """What the page shows, all pages of it, newest first, as CSV. Written as it is read: memory holds one batch."""
    wanted, problem = _wanted(_values(request))
    if wanted is None:
        return explain(request, title="There is nothing to export", text=problem, status=400)
    name = f"audit-{timezone.now():%Y-%m-%d}.csv"
    response = StreamingHttpResponse(lines(wanted), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    return response


def lines(wanted: Wanted, *, most: int = MOST_ROWS, batch: int = 1000) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(_HEAD)
    for entry in _rows(wanted, most, batch):
        yield writer.writerow([harmless(cell) for cell in _cells(entry)])


class _Echo:
    """A file for csv.writer that hands back each line instead of keeping it."""

    def write(self, line: str) -> str:
        return line


def _rows(wanted: Wanted, most: int, batch: int) -> Iterator[AuditEntry]:
    """Batch by batch, each after the last id of the one before."""
    rows = entries(wanted).order_by("-id")
    found = list(rows[: min(batch, most)])
    while found:
        yield from found
        most -= len(found)
        found = list(rows.filter(id__lt=found[-1].id)[: min(batch, most)])


def _cells(entry: AuditEntry) -> Iterable[str]:
    consumer = ids.show("con", entry.consumer_id) if entry.consumer_id else ""
    at = entry.at.astimezone(UTC).isoformat()
    return (
        entry.public_id, at, entry.actor, entry.actor_kind, entry.actor_id, entry.action, entry.target, consumer,
        str(entry.count), entry.detail, entry.why,
    )  # fmt: skip


def harmless(cell: str) -> str:
    """As text, whatever it begins with: an apostrophe before it keeps a spreadsheet from working it out."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


def _values(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "").strip().replace("\0", "") for name in _FILTERS}


def _wanted(values: dict[str, str]) -> tuple[Wanted | None, str]:
    """The filter, or what could not be understood."""
    try:
        since, until = (read_time(text, zone=False) if text else None for text in (values["since"], values["until"]))
    except BadTime as error:
        return None, str(error)
    actor, action, target = (values[name] for name in ("actor", "action", "target"))
    return Wanted(actor=actor, action=action, target=target, since=since, until=until), ""
