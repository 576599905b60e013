"""Everything a call can raise.

WebhooksError
├── Unreachable        no answer, after every try: the request may or may not have arrived
└── Refused            the platform answered with a problem document
    ├── Invalid            400, 411, 413, 415: what was sent cannot be accepted as it is
    ├── NotAuthenticated   401
    ├── NotAllowed         403
    ├── NotFound           404
    ├── Conflict           409
    ├── RateLimited        429, after every try
    └── Unavailable        408 and 5xx, after every try
"""

from collections.abc import Mapping
from typing import Any


class WebhooksError(Exception):
    """Anything that went wrong with a call."""


class Unreachable(WebhooksError):
    """No answer came. With its idempotency key the same request can be sent again, and still counts once."""


class Refused(WebhooksError):
    """The platform's answer, from its problem document. `code` is stable; `detail` is for people."""

    def __init__(self, status: int, document: Mapping[str, Any], *, retry_after: float | None = None) -> None:
        self.status = status
        self.code = str(document.get("code") or f"http_{status}")
        self.detail = str(document.get("detail") or document.get("title") or f"HTTP status {status}")
        self.errors: list[Mapping[str, str]] = list(document.get("errors") or ())
        self.document = dict(document)
        # Seconds, where the answer named a time to wait.
        self.retry_after = retry_after
        super().__init__(f"{self.code}: {self.detail}")


class Invalid(Refused):
    pass


class NotAuthenticated(Refused):
    pass


class NotAllowed(Refused):
    pass


class NotFound(Refused):
    pass


class Conflict(Refused):
    pass


class RateLimited(Refused):
    pass


class Unavailable(Refused):
    pass


_BY_STATUS: dict[int, type[Refused]] = {
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    429: RateLimited,
}


def refusal(status: int, document: Mapping[str, Any], *, retry_after: float | None = None) -> Refused:
    kind = _BY_STATUS.get(status) or (Unavailable if status >= 500 else Invalid)
    return kind(status, document, retry_after=retry_after)
