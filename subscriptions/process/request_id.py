"""The id of the request that this thread works on: its `X-Request-Id`, or one made here.

The answer carries it, and so does each log line of the work. `webhooks_platform/web/request_log.py` begins and ends it.
"""

import re
from contextvars import ContextVar, Token

import uuid_utils

# What proxies and tracing libraries send. Nothing in it can end a line or a header.
_WELL_FORMED = re.compile(r"[A-Za-z0-9._:@=+/\-]{1,128}")
_current: ContextVar[str | None] = ContextVar("request_id", default=None)

# None outside of a request.
current = _current.get


def begin(given: str | None) -> tuple[str, Token[str | None]]:
    """The id that was given where it is well-formed, a new one otherwise; and what `end` takes."""
    own = given if given is not None and _WELL_FORMED.fullmatch(given) else uuid_utils.uuid7().hex
    return own, _current.set(own)


end = _current.reset
