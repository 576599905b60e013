"""Between send and settle: secrets that a receiver echoes are taken out of what is stored and shown of its answer.

Pure. Asked only for endpoints with headers of their own, or whose answer holds what looks like a signing secret.
"""

from collections.abc import Iterable

from deliveries.pump.spellings import spellings, without, without_cut
from deliveries.send import Answered, Unanswered


def redacted(sent: Answered | Unanswered, secrets: Iterable[str]) -> Answered | Unanswered:
    spelled = spellings(tuple(secrets))
    if isinstance(sent, Unanswered):
        return sent._replace(detail=without(sent.detail, spelled))
    body = sent.body.decode("latin-1")  # byte for byte, and back
    if sent.body_truncated:
        body = without_cut(body, spelled)
    # Once through all headers, as there are many of both; and then only what is there.
    values = "\n".join(value for _, value in sent.headers)
    echoed = [spelling for spelling in spelled if spelling in values]
    return sent._replace(
        headers=tuple((name, without(value, echoed)) for name, value in sent.headers) if echoed else sent.headers,
        body=without(body, spelled).encode("latin-1"),
    )


def looks_secret(sent: Answered | Unanswered) -> bool:
    """Whether a signing secret may be in what came back."""
    if isinstance(sent, Unanswered):
        return "whsec_" in sent.detail
    return b"whsec_" in sent.body or any("whsec_" in value for _, value in sent.headers)
