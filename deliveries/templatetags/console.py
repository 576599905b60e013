"""What the console's templates say in words. Everything a receiver sent stays escaped: nothing here is marked safe."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django import template
from django.template.context import Context
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from deliveries.browse import words
from deliveries.console.failing import Failing
from deliveries.console.failing import failing as words_of_failing
from subscriptions import ids
from subscriptions.models import Endpoint

register = template.Library()


@register.simple_block_tag(takes_context=True)
def action(
    context: Context,
    content: str,
    url: str,
    id: str,
    name: str,
    question: str,
    *,
    icon: str = "",
    tone: str = "",
    confirm: str = "",
    why: str | None = "optional",
    overlap: bool = False,
    until: datetime | None = None,
    **fields: str,
) -> SafeString:
    """A button, and the dialog it opens: the question, `content` for what will happen, and a form sent to `url`.

    `fields` are hidden fields of the form, and `why` says whether it asks for a reason: `optional`, `required` or not
    (None). `overlap` asks how long the old secret signs beside the new one; `until` is the end of a running rotation.
    """
    assert context.template
    values = {
        "text": content, "url": url, "id": id, "name": name, "question": question, "icon": icon, "tone": tone,
        "confirm": confirm or name, "confirm_tone": "danger" if overlap and until else tone or "primary",
        "why": why, "overlap": overlap, "until": until, "fields": fields, "csrf_token": context.get("csrf_token"),
    }  # fmt: skip
    return context.template.engine.get_template("console/action.html").render(context.new(values))


@register.simple_tag(takes_context=True)
def sorted_by(context: Context, sort: str) -> str:
    """This page sorted by something else, from the top; by nothing for an empty one."""
    query = context["request"].GET.copy()
    for name in ("before", "after", "sort"):
        query.pop(name, None)
    if sort:
        query["sort"] = sort
    return f"?{query.urlencode()}"


_STATE_TONES = {
    "delivered": "good", "active": "good", "done": "good", "recovered": "good", "breaker_closed": "good",
    "resumed": "good", "dead": "bad", "disabled": "bad", "breaker_opened": "bad", "last_warning": "bad",
    "pending": "wait", "retrying": "wait", "paused": "wait", "warning": "wait", "held": "wait",
    "running": "live", "in_flight": "live", "failing": "wait", "pass": "good", "fail": "bad", "warn": "wait",
}  # fmt: skip


@register.filter
def ago(at: datetime | None) -> str | SafeString:
    """`5 min ago`, with the full time one hover away."""
    if at is None:
        return "–"
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        at.isoformat(),
        at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        words.relative(at, now=timezone.now()),
    )


@register.filter
def moment(at: datetime | None) -> str:
    return "–" if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


@register.filter
def failing(endpoint: Endpoint) -> Failing | None:
    return words_of_failing(endpoint, now=timezone.now())


@register.filter
def public(uuid: UUID, prefix: str) -> str:
    return ids.show(prefix, uuid)


@register.filter
def short(public_id: str) -> str:
    """The part of an id that tells it from its neighbours."""
    head, _, tail = str(public_id).rpartition("_")
    return f"{head}_…{tail[-6:]}" if head and len(tail) == 26 else str(public_id)


@register.filter
def pill(state: str) -> SafeString:
    tone = _STATE_TONES.get(state, "plain")
    return format_html('<span class="c-pill c-{}">{}</span>', tone, state.replace("_", " "))


@register.filter
def reason_title(dead_reason: str) -> str:
    return words.advice(dead_reason).title


@register.filter
def kind(error_kind: str) -> str:
    return words.kind(error_kind)


@register.filter
def outcome(attempt: Any) -> str:
    return words.outcome(attempt.status_code, attempt.error_kind)


@register.filter
def headers(pairs: Iterable[tuple[str, str]]) -> SafeString:
    """One header per line, for a `<pre>`."""
    return format_html_join("\n", "<b>{}:</b> {}", pairs)


@register.filter
def ms(value: float | None) -> str:
    return words.milliseconds(value)


@register.filter
def seconds(value: float) -> str:
    return words.span(value)


@register.filter
def count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


@register.filter
def filesize(value: int) -> str:
    return words.size(value)


@register.filter
def percent(value: float | None) -> str:
    if value is None:
        return "–"
    # 99.96 % must not be shown as 100.
    return "100 %" if value >= 1 else f"{min(value * 100, 99.9):.1f} %"
