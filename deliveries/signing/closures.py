"""Part of sign: a recipe becomes a function that writes the headers of a request. Pure.

All that a recipe can say is decided when it is compiled; what is left for each attempt is one digest for each secret.
"""

import base64
import hmac
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from subscriptions.signing.ready_made import READY_MADE
from subscriptions.signing.recipe import Recipe


class Message(NamedTuple):
    """What there is to sign, and to name in headers."""

    event_id: str
    event_type: str
    timestamp: int
    attempt: int
    url: str
    body: bytes


Headers = list[tuple[str, str]]
Closure = Callable[[Sequence[str], Message], Headers]
Text = Callable[[Message], str]


@lru_cache(maxsize=1024)
def closure(scheme: str, recipe: str | None) -> Closure:
    """Of a ready-made scheme, or of a profile with its recipe as it is stored."""
    return compiled(READY_MADE[scheme] if recipe is None else Recipe(**json.loads(recipe)))


def compiled(recipe: Recipe) -> Closure:
    values = signatures(recipe)
    lead, separator = text(recipe.lead), recipe.separator
    first, second = recipe.signature_header, recipe.second_header
    others = _other_headers(recipe)

    def joined(secrets: Sequence[str], message: Message) -> Headers:
        signed = (first, lead(message) + separator.join(values(secrets, message)))
        return [signed, *[(name, value(message)) for name, value in others]]

    def apart(secrets: Sequence[str], message: Message) -> Headers:
        """Whoever reads one signature holds the older secret, until the overlap ends: nothing changes for them."""
        newest, *older = values(secrets, message)
        signed = [(first, lead(message) + (older[0] if older else newest))]
        if older and second is not None:
            signed.append((second, lead(message) + newest))
        return [*signed, *[(name, value(message)) for name, value in others]]

    return joined if second is None else apart


def signatures(recipe: Recipe) -> Callable[[Sequence[str], Message], list[str]]:
    """One for each secret, with the prefix before it."""
    signed, key, encode, prefix, name = (
        bytes_of(recipe),
        KEYS[recipe.key],
        ENCODINGS[recipe.encoding],
        recipe.prefix,
        recipe.hash,
    )

    def write(secrets: Sequence[str], message: Message) -> list[str]:
        content = signed(message)
        return [prefix + encode(hmac.digest(key(secret), content, name)) for secret in secrets]

    return write


def bytes_of(recipe: Recipe) -> Callable[[Message], bytes]:
    """What the signature is made of: text, the body's bytes, text."""
    before, _, after = recipe.signed.partition("{body}")
    head, tail = text(before), text(after)
    if not before and not after:
        return lambda message: message.body
    if not after:
        return lambda message: head(message).encode() + message.body
    return lambda message: head(message).encode() + message.body + tail(message).encode()


def text(template: str) -> Text:
    """Text with placeholders in it, all but the body's."""
    if "{" not in template:
        return lambda _: template
    form = template.replace("%", "%%")
    for name in ("timestamp", "id", "url"):
        form = form.replace(f"{{{name}}}", f"%({name})s")

    def fill(message: Message) -> str:
        return form % {"timestamp": message.timestamp, "id": message.event_id, "url": message.url}

    return fill


def _other_headers(recipe: Recipe) -> list[tuple[str, Text]]:
    named: list[tuple[str | None, Text]] = [
        (recipe.id_header, lambda message: message.event_id),
        (recipe.timestamp_header, lambda message: str(message.timestamp)),
        (recipe.attempt_header, lambda message: str(message.attempt)),
        (recipe.type_header, lambda message: message.event_type),
    ]
    return [(name, value) for name, value in named if name is not None]


def decoded(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


def _in_base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


KEYS: dict[str, Callable[[str], bytes]] = {"text": str.encode, "base64": decoded}
ENCODINGS: dict[str, Callable[[bytes], str]] = {"hex": bytes.hex, "base64": _in_base64}
