"""Between send and settle: secrets that a receiver echoes are taken out of what is stored and shown of its answer.

Pure. Asked only for endpoints with headers of their own, or whose answer holds what looks like a signing secret.
"""

import json
from collections.abc import Iterable, Iterator

from deliveries.send import Answered, Unanswered

PLACEHOLDER = "[redacted]"
# Shorter values are hardly secrets, and every other word would be taken out with them (characters).
_SHORTEST = 6
_SHORTEST_WORD = 8


def redacted(sent: Answered | Unanswered, secrets: Iterable[str]) -> Answered | Unanswered:
    spellings = sorted({text for secret in secrets for text in _spellings(secret)}, key=len, reverse=True)
    if isinstance(sent, Unanswered):
        return sent._replace(detail=_without(sent.detail, spellings))
    body = sent.body.decode("latin-1")  # byte for byte, and back
    return sent._replace(
        headers=tuple((name, _without(value, spellings)) for name, value in sent.headers),
        body=_without(_without_cut(body, spellings) if sent.body_truncated else body, spellings).encode("latin-1"),
    )


def _spellings(secret: str) -> Iterator[str]:
    """As it was sent, each word of it (a token without its `Bearer`), and both as they stand in JSON."""
    words = [word for word in secret.split() if len(word) >= _SHORTEST_WORD]
    for text in [secret, *words] if len(secret) >= _SHORTEST else []:
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text)[1:-1].replace("/", "\\/")


def _without(text: str, spellings: Iterable[str]) -> str:
    for spelling in spellings:
        if spelling in text:
            text = text.replace(spelling, PLACEHOLDER)
    return text


def _without_cut(text: str, spellings: Iterable[str]) -> str:
    """Without the beginning of a secret at the end of a body that is longer than what is kept of it."""
    for spelling in spellings:
        for length in range(min(len(spelling), len(text)), _SHORTEST - 1, -1):
            if text.endswith(spelling[:length]):
                return text[:-length] + PLACEHOLDER
    return text
