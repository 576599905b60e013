"""How a time that somebody wrote is read: by the API's filters, the console and the shell. Ids are time-ordered, so a
time of a filter becomes an id: one that no id can stand for is no time at all, and must not pass for "at any time"."""

from datetime import UTC, datetime

from django.utils.translation import gettext as _

_FIRST_YEAR, _LAST_YEAR = 1971, 9998


class BadTime(ValueError):
    """Says what is wrong with it, for people."""


def read_time(text: str, *, zone: bool) -> datetime:
    """ISO 8601. With `zone`, it has to name its zone; else one that names none is in UTC."""
    like = "2026-01-31T12:00:00Z" if zone else _("2026-01-31T12:00, in UTC")
    given = {"text": text[:100], "like": like}
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(_("“%(text)s” is no time. Write it like %(like)s.") % given) from None
    if at.tzinfo is None and zone:
        raise BadTime(_("“%(text)s” names no zone. Write it like %(like)s.") % given)
    if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        years = {"text": text[:100], "first": _FIRST_YEAR, "last": _LAST_YEAR}
        raise BadTime(_("“%(text)s” is out of range: a time between %(first)s and %(last)s.") % years)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
