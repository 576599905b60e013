"""Which headers an endpoint may add to its deliveries, so that none can add a line or speak for us (S08).

Values are secrets: no message here repeats one.
"""

import re
from collections.abc import Mapping

from django.utils.translation import gettext as _

MAX_HEADERS = 20
MAX_NAME_LENGTH = 64
MAX_VALUE_LENGTH = 1024


class RefusedHeader(ValueError):
    """A header we do not send. `name` says which one, None when it is about all of them."""

    def __init__(self, code: str, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.name = name


def check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > MAX_HEADERS:
        raise RefusedHeader("too_many_headers", _("At most %(most)s custom headers are sent.") % {"most": MAX_HEADERS})
    seen: set[str] = set()
    for name, value in headers.items():
        _check_name(name)
        _check_value(name, value)
        if folded(name) in seen:
            raise RefusedHeader(
                "header_duplicated",
                _("%(name)s is given twice; header names ignore upper and lower case, and receivers read `_` as `-`.")
                % {"name": name},
                name=name,
            )
        seen.add(folded(name))


def _check_name(name: str) -> None:
    if not is_header_name(name):
        raise RefusedHeader(
            "header_name_invalid",
            _("A header name is 1 to %(most)s letters, digits or hyphens, without spaces or a colon.")
            % {"most": MAX_NAME_LENGTH},
            name=name,
        )
    if folded(name) in RESERVED or folded(name).startswith(RESERVED_PREFIXES):
        text = _("%(name)s is set by us or by the connection.")
        raise RefusedHeader("header_name_reserved", text % {"name": name}, name=name)


def is_header_name(name: str) -> bool:
    # `fullmatch`, because `$` would let a trailing newline through. The set is RFC 9110's token.
    return 0 < len(name) <= MAX_NAME_LENGTH and re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) is not None


def folded(name: str) -> str:
    """As receivers tell names apart: CGI and WSGI make the same variable of `Content_Length` and `Content-Length`."""
    return name.lower().replace("_", "-")


def _check_value(name: str, value: str) -> None:
    if len(value) > MAX_VALUE_LENGTH or not re.fullmatch(r"[!-~]([\t -~]*[!-~])?", value):
        raise RefusedHeader(
            "header_value_invalid",
            _(
                "The value of %(name)s has to be 1 to %(most)s visible ASCII characters"
                " in one line, without a space at either end."
            )
            % {"name": name, "most": MAX_VALUE_LENGTH},
            name=name,
        )


RESERVED_PREFIXES = ("webhook-", "proxy-")

RESERVED = frozenset(
    {
        # What every delivery says about itself
        "idempotency-key",
        "content-type",
        "user-agent",
        "traceparent",
        "tracestate",
        # What frames the message: a second opinion here is how requests are smuggled
        "host",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        # What belongs to one connection
        "connection",
        "expect",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        # Answers are kept as they come, so they had better not come compressed
        "accept-encoding",
        # A delivery is not a browser session; Authorization is there for credentials
        "cookie",
        "set-cookie",
    }
)
