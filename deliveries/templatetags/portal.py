"""What the portal's templates say in words. Nothing here is marked safe but the markup of our own."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop, ngettext

from deliveries.browse import words

register = template.Library()

_TONES = {
    "delivered": "good", "active": "good", "pass": "good", "dead": "bad", "fail": "bad", "disabled": "bad",
    "pending": "wait", "warn": "wait", "paused": "wait", "in_flight": "live", "running": "live", "done": "good",
}  # fmt: skip


@register.filter
def ago(at: datetime | str) -> SafeString:
    """Also of a time inside a stored report, which is text."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    shown = words.relative(at, now=timezone.now())
    title = f"{at:%Y-%m-%d %H:%M:%S}"
    return format_html('<time datetime="{}" title="{} UTC" data-ago>{}</time>', at.isoformat(), title, shown)


@register.filter
def moment(at: datetime) -> SafeString:
    """In UTC; the script puts it into the reader's zone."""
    return format_html('<time datetime="{}" data-moment>{} UTC</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S}")


# States as the API spells them, for people.
_STATES = {
    "pending": gettext_noop("pending"), "in_flight": gettext_noop("in flight"), "delivered": gettext_noop("delivered"),
    "dead": gettext_noop("dead"), "active": gettext_noop("active"), "paused": gettext_noop("paused"),
    "disabled": gettext_noop("disabled"), "running": gettext_noop("running"), "done": gettext_noop("done"),
    "cancelled": gettext_noop("cancelled"), "pass": gettext_noop("pass"), "warn": gettext_noop("warn"),
    "fail": gettext_noop("fail"), "unknown": gettext_noop("unknown"),
}  # fmt: skip
_NOTICES = {
    "breaker_opened": gettext_noop("Breaker opened"), "breaker_closed": gettext_noop("Breaker closed"),
    "warning": gettext_noop("Warning"), "last_warning": gettext_noop("Last warning"),
    "disabled": gettext_noop("Disabled"), "recovered": gettext_noop("Recovered"), "paused": gettext_noop("Paused"),
    "resumed": gettext_noop("Resumed"),
}  # fmt: skip
_DURATIONS = {"h": gettext_noop("h"), "d": gettext_noop("d")}


@register.filter
def pill(state: str) -> SafeString:
    return format_html('<span class="pill {}">{}</span>', _TONES.get(state, "plain"), stated(state))


@register.filter
def stated(state: str) -> str:
    return gettext(_STATES[state]) if state in _STATES else state.replace("_", " ")


@register.filter
def dead_letters(count: int, cap: int) -> str:
    """`3 dead letters`, `1000+ dead letters`: counted up to the cap."""
    text = ngettext("%(count)s dead letter", "%(count)s dead letters", count)
    return text % {"count": f"{count}+" if count >= cap else count}


@register.filter
def noticed(kind: str) -> str:
    return gettext(_NOTICES[kind]) if kind in _NOTICES else kind.replace("_", " ").capitalize()


@register.filter
def duration(name: str) -> str:
    """`24h` → `24 h`."""
    return f"{name[:-1]} {gettext(_DURATIONS[name[-1]])}" if name[-1:] in _DURATIONS else name


@register.filter
def spaced(name: str) -> str:
    """`in_flight` → `in flight`."""
    return name.replace("_", " ")


@register.filter
def as_lines(headers: list[tuple[str, str]], body: str = "") -> str:
    """Headers as they stand in a message, and its body after an empty line. Escaped like all text."""
    told = "".join(f"{name}: {value}\n" for name, value in headers or [])
    return f"{told}\n{body}" if body else told


@register.filter
def below(text: str) -> str:
    """On a line of its own; a template would indent it."""
    return f"\n{text}"


@register.filter
def percent(share: float) -> str:
    """Never 100 % while something failed."""
    return "100 %" if share == 1 else f"{words.decimal(min(share * 100, 99.9))} %"


@register.filter
def ms(value: float | None) -> str:
    return words.milliseconds(value)


@register.filter
def waits(schedule: list[int]) -> str:
    """`7: at once, after 1 min, 5 min, …`: how many attempts, and the wait before each."""
    spans = [words.span(seconds) if seconds else gettext("at once") for seconds in schedule]
    return f"{len(schedule)}: {', '.join(spans)}"


@register.filter
def span(seconds: float) -> str:
    return words.span(seconds)
