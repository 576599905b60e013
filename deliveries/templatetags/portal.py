"""What the portal's templates say in words. Nothing here is marked safe but the markup of our own."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

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
    return format_html('<time datetime="{}" title="{} UTC">{}</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S}", shown)


@register.filter
def moment(at: datetime) -> SafeString:
    """In UTC; the script puts it into the reader's zone."""
    return format_html('<time datetime="{}" data-moment>{} UTC</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S}")


@register.filter
def pill(state: str) -> SafeString:
    return format_html('<span class="pill {}">{}</span>', _TONES.get(state, "plain"), state.replace("_", " "))


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
def percent(share: float) -> str:
    """Never 100 % while something failed."""
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.1f} %"


@register.filter
def ms(value: float | None) -> str:
    return words.milliseconds(value)


@register.filter
def span(seconds: float) -> str:
    return words.span(seconds)
