"""How a time that somebody wrote is read: by the API's filters, the console and the shell. Ids are time-ordered, so a
time of a filter becomes an id: one that no id can stand for is no time at all, and must not pass for "at any time"."""

from datetime import UTC, datetime

_FIRST_YEAR, _LAST_YEAR = 1971, 9998


class BadTime(ValueError):
    """Says what is wrong with it, for people."""


def read_time(text: str, *, zone: bool) -> datetime:
    """ISO 8601. With `zone`, it has to name its zone; else one that names none is in UTC."""
    like = "2026-01-31T12:00:00Z" if zone else "2026-01-31T12:00, in UTC"
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(f"“{text[:100]}” is no time. Write it like {like}.") from None
    if at.tzinfo is None and zone:
        raise BadTime(f"“{text[:100]}” names no zone. Write it like {like}.")
    if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise BadTime(f"“{text[:100]}” is out of range: a time between {_FIRST_YEAR} and {_LAST_YEAR}.")
    return at if at.tzinfo else at.replace(tzinfo=UTC)
