"""Part of redact and of failure_detail: how a secret may be spelled where it is echoed, and text without it. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

PLACEHOLDER = "[redacted]"
# Shorter values are hardly secrets, and every other word would be taken out with them (characters).
SHORTEST = 6
_SHORTEST_WORD = 8
# A value of more words is a sentence: it is looked for as a whole.
_MOST_WORDS = 4
# Whose ever it is.
_SIGNING_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]*")


@lru_cache(maxsize=1024)
def spellings(secrets: tuple[str, ...], *, shortest: int = SHORTEST) -> tuple[str, ...]:
    """Longest first. Remembered, as a worker asks for the same endpoints again and again."""
    found = {text for secret in secrets if len(secret) >= shortest for text in _spellings(secret)}
    return tuple(sorted(found, key=len, reverse=True))


def without(text: str, spelled: Iterable[str]) -> str:
    for spelling in spelled:
        if spelling in text:
            text = text.replace(spelling, PLACEHOLDER)
    return text


def without_cut(text: str, spelled: Sequence[str]) -> str:
    """Without the beginning of a secret at the end of what was cut off there."""
    starts = [start for spelling in spelled if (start := _cut_at(text, spelling)) is not None]
    return text[: min(starts)] + PLACEHOLDER if starts else text


def without_signing_secrets(text: str) -> str:
    return _SIGNING_SECRET.sub(PLACEHOLDER, text) if "whsec_" in text else text


def _spellings(secret: str) -> Iterator[str]:
    """As it was sent, each word of it (a token without its `Bearer`), and both as they stand in JSON."""
    words = secret.split(maxsplit=_MOST_WORDS)
    long = [word for word in words if len(word) >= _SHORTEST_WORD] if len(words) <= _MOST_WORDS else []
    for text in [secret, *long]:
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text)[1:-1].replace("/", "\\/")


def _cut_at(text: str, spelling: str) -> int | None:
    """Where the text's end begins this spelling: one search through as much of the end as can hold it."""
    beginning = spelling[:SHORTEST]
    start = text.find(beginning, max(0, len(text) - len(spelling)))
    while start >= 0:
        if spelling.startswith(text[start:]):
            return start
        start = text.find(beginning, start + 1)
    return None
