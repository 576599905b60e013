"""A recipe: which headers a request carries, what is signed, and how signatures are written. Data; `deliveries/signing`
compiles it. Read and checked here, wherever it comes from.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from subscriptions.guards.headers import RESERVED, folded, is_header_name

HASHES = ("sha256", "sha512", "sha1")
ENCODINGS = ("hex", "base64")
KEYS = ("text", "base64")
PLACEHOLDERS = ("body", "timestamp", "id", "url")
LONGEST_SIGNED, LONGEST_PART = 200, 32
_HEADERS = ("id_header", "timestamp_header", "signature_header", "attempt_header", "type_header", "second_header")
_OUR_NAMES = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature", "webhook-attempt", "webhook-event"})
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PRINTABLE = re.compile(r"[ -~]*")
# What a signature in hex or base64 may consist of.
_ENCODED = re.compile(r"[A-Za-z0-9+/=]+")


@dataclass(frozen=True, slots=True)
class Recipe:
    # What the signature is made of: text with {body}, {timestamp}, {id} and {url} in it.
    signed: str
    signature_header: str = "webhook-signature"
    # None: the request has no such header.
    id_header: str | None = "webhook-id"
    timestamp_header: str | None = "webhook-timestamp"
    attempt_header: str | None = "webhook-attempt"
    type_header: str | None = None
    hash: str = "sha256"
    encoding: str = "hex"
    # How a secret becomes a key: its text as it is, or the bytes that it is the base64 of (after `whsec_`).
    key: str = "text"
    # Before all signatures; may hold {timestamp}.
    lead: str = ""
    # Before each signature.
    prefix: str = ""
    # Between two signatures of a rotation, new first.
    separator: str = ","
    # Where receivers read a single signature: during a rotation, the signature header goes on with the old secret, and
    # this one has the new secret's.
    second_header: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def signs_time(self) -> bool:
        """Whether a receiver can tell a recorded request that is played again."""
        return "{timestamp}" in self.signed

    @property
    def header_names(self) -> list[str]:
        return [name for field in _HEADERS if (name := getattr(self, field)) is not None]

    @property
    def warnings(self) -> list[str]:
        found = []
        if self.hash == "sha1":
            found.append("SHA-1 is broken for other uses and refused by many audits: keep it for old contracts only.")
        if not self.signs_time:
            found.append("The time is not signed: whoever records a request can play it again at any time.")
        return found


class RefusedRecipe(ValueError):
    """No requests can be signed like this. `pointer` says which field it is about."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.pointer = f"/{field}"


FIELDS = tuple(field.name for field in fields(Recipe))


def read(given: Mapping[str, Any]) -> Recipe:
    """`RefusedRecipe` where receivers could not verify it, or it would speak for another header."""
    recipe = Recipe(**{name: given[name] for name in FIELDS if name in given})
    for field, problem in _problems(recipe):
        raise RefusedRecipe(field, problem)
    return recipe


def _problems(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield from _of_words(recipe)
    yield from _of_text("signed", recipe.signed, allowed=PLACEHOLDERS, longest=LONGEST_SIGNED)
    yield from _of_text("lead", recipe.lead, allowed=("timestamp",), longest=LONGEST_PART)
    yield from _of_text("prefix", recipe.prefix, allowed=(), longest=LONGEST_PART)
    yield from _of_text("separator", recipe.separator, allowed=(), longest=LONGEST_PART)
    if recipe.signed.count("{body}") != 1:
        yield "signed", "It has {body} once: a signature that leaves the body out proves nothing."
    if (recipe.lead + recipe.prefix).startswith(" "):
        yield "lead" if recipe.lead else "prefix", "No header begins with a blank."
    if recipe.second_header is None and not recipe.separator:
        yield "separator", "Two signatures in one header need something between them; or name a `second_header`."
    if recipe.second_header is None and recipe.separator and _is_ambiguous(recipe):
        yield "separator", "It could be part of a signature: take one that is in no prefix and no encoded value."
    is_sent = recipe.timestamp_header is not None or "{timestamp}" in recipe.lead
    if recipe.signs_time and not is_sent:
        yield "timestamp_header", "The time is signed, so receivers need it: in this header, or in `lead`."
    if "{id}" in recipe.signed and recipe.id_header is None:
        yield "id_header", "The id is signed, so receivers need it in a header."
    yield from _of_headers(recipe)


def _is_ambiguous(recipe: Recipe) -> bool:
    """Whether a receiver that splits at the separator could cut a signature in two."""
    return recipe.separator in recipe.prefix or _ENCODED.fullmatch(recipe.separator) is not None


def _of_words(recipe: Recipe) -> Iterator[tuple[str, str]]:
    for field, allowed in (("hash", HASHES), ("encoding", ENCODINGS), ("key", KEYS)):
        if getattr(recipe, field) not in allowed:
            yield field, f"One of {', '.join(allowed)}."


def _of_text(field: str, text: str, *, allowed: tuple[str, ...], longest: int) -> Iterator[tuple[str, str]]:
    if len(text) > longest or not _PRINTABLE.fullmatch(text):
        yield field, f"At most {longest} printable characters of ASCII."
    for name in _PLACEHOLDER.findall(text):
        if name not in allowed:
            known = ", ".join(f"{{{each}}}" for each in allowed)
            yield field, f"There is no {{{name}}} here. " + (f"There are {known}." if known else "This is plain text.")
    if set("{}") & set(_PLACEHOLDER.sub("", text)):
        yield field, "A brace is open or closed by itself."


def _of_headers(recipe: Recipe) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for field in _HEADERS:
        name = getattr(recipe, field)
        if name is None:
            continue
        if not is_header_name(name):
            yield field, "A header name is 1 to 64 letters, digits or hyphens, without spaces or a colon."
        if _is_reserved(folded(name)):
            yield field, f"{name} is set by us or by the connection."
        if (other := seen.get(folded(name))) is not None:
            yield field, f"`{other}` has this name already."
        seen[folded(name)] = field


def _is_reserved(name: str) -> bool:
    return (
        name in RESERVED
        or name.startswith(("proxy-", "ce-"))
        or (name.startswith("webhook-") and name not in _OUR_NAMES)
    )
