"""`{% csrf_token %}`, with a `form_id` beside it: a random name of this one form (pages/idempotent_forms.py).

A built-in of the template engine (settings.TEMPLATES) that takes the place of Django's tag, so every form has one, also
those of Django's admin, whose templates are not ours.
"""

import secrets

from django import template
from django.template.base import Parser, Token
from django.template.context import Context
from django.template.defaulttags import CsrfTokenNode
from django.utils.html import format_html
from django.utils.safestring import SafeString

from deliveries.pages.idempotent_forms import FIELD

register = template.Library()


class FormTokenNode(CsrfTokenNode):
    def render(self, context: Context) -> SafeString:
        field = super().render(context)
        return format_html('{}<input type="hidden" name="{}" value="{}">', field, FIELD, secrets.token_urlsafe(18))


@register.tag("csrf_token")
def form_tokens(parser: Parser, token: Token) -> FormTokenNode:
    return FormTokenNode()
