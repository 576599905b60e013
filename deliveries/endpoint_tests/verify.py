"""Verify a request as a receiver should, and name the mistake where it fails. Pure; keeps nothing of what it is given.

First the request itself: do these headers, this body and this secret fit together, and if not, which of them changed?
Then, where somebody says what their own code computed: which classic mistake computes exactly that?
"""

import base64
import binascii
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deliveries.signing.closures import ENCODINGS
from subscriptions.signing.ready_made import READY_MADE, STANDARD, TIMESTAMPED
from subscriptions.signing.recipe import HASHES, Recipe

TOLERANCE_SECONDS = 300
_OWN = (TIMESTAMPED, STANDARD)
_TIMESTAMPED, _STANDARD = READY_MADE[TIMESTAMPED], READY_MADE[STANDARD]

Variant = tuple[str, bytes]  # the mistake in words, empty for none; what it makes of the thing


@dataclass(frozen=True, slots=True)
class Explanation:
    sound: bool
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Signed:
    """What the headers say."""

    recipe: Recipe
    event_id: str
    timestamp: str
    # Without what stands before them.
    signatures: tuple[str, ...]
    url: str = ""


def explain(
    *, headers: str, body: str, secret: str, computed: str = "", own_secrets: Sequence[str] = (), now: float,
    recipe: Recipe | None = None, url: str = "",
) -> Explanation:  # fmt: skip
    """`own_secrets`, `recipe` and `url` are those that the endpoint has, where it is known which one this is about."""
    signed = read_headers(headers, recipe, url)
    if isinstance(signed, str):
        return Explanation(False, "The headers are not complete", signed)
    request = _check_request(signed, body.replace("\r\n", "\n").encode(), secret, own_secrets, now=now)
    if computed.strip() and secret:
        return _check_computed(signed, body.replace("\r\n", "\n").encode(), secret, computed.strip()) or request
    return request


def read_headers(text: str, recipe: Recipe | None = None, url: str = "") -> Signed | str:
    """What is needed of the pasted headers, or what is wrong with them.

    Our own two schemes are told apart by what the header says; all others by the endpoint, or by the header's name.
    """
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        # Frameworks show them as HTTP_WEBHOOK_ID or webhook_id.
        found[name.strip().strip("\"'").lower().replace("_", "-").removeprefix("http-")] = value.strip().strip("\"',")
    header, event_id = found.get("webhook-signature", ""), found.get("webhook-id", "")
    if recipe is None and not header:
        recipe = next(
            (each for name, each in READY_MADE.items() if name not in _OWN and each.signature_header in found), None
        )
    if recipe is not None and recipe not in (_TIMESTAMPED, _STANDARD):
        return _read_by(recipe, found, url)
    if not header:
        return "There is no webhook-signature among them. Header names come in any case."
    if header.startswith("t="):
        timestamp, *given = header.removeprefix("t=").split(",")
        signatures = tuple(each.strip().removeprefix("v1=") for each in given if each.strip().startswith("v1="))
        if _is_time(timestamp) and signatures:
            return Signed(_TIMESTAMPED, event_id, timestamp, signatures)
        return "The webhook-signature is cut short: it should read t=<seconds>,v1=<hex>."
    signatures = tuple(each.removeprefix("v1,") for each in header.split() if each.startswith("v1,"))
    timestamp = found.get("webhook-timestamp", "")
    if not signatures:
        return "The webhook-signature is not one of ours: it begins with t= or with v1,"
    if not event_id or not _is_time(timestamp):
        return "This scheme signs the webhook-id and the webhook-timestamp too; paste both."
    return Signed(_STANDARD, event_id, timestamp, signatures)


def _read_by(recipe: Recipe, found: Mapping[str, str], url: str) -> Signed | str:
    names = [name.lower().replace("_", "-") for name in (recipe.signature_header, recipe.second_header) if name]
    values = [found[name] for name in names if found.get(name)]
    if not values:
        return f"There is no {recipe.signature_header} among them. Header names come in any case."
    before, has_time, after = recipe.lead.partition("{timestamp}")
    lead = re.compile(
        re.escape(before) + r"(?P<time>[0-9]{1,12})" + re.escape(after) if has_time else re.escape(before)
    )
    starts = [lead.match(value) for value in values]
    rests = [value[start.end() :] for value, start in zip(values, starts, strict=True) if start]
    parts = [part for rest in rests for part in (rest.split(recipe.separator) if recipe.separator else [rest])]
    signatures = tuple(
        part.strip().removeprefix(recipe.prefix) for part in parts if part.strip().startswith(recipe.prefix)
    )
    if not signatures:
        form = f"{recipe.lead}{recipe.prefix}<{recipe.encoding}>"
        return f"The {recipe.signature_header} is cut short: it should read {form}."
    timestamp = found.get((recipe.timestamp_header or "").lower(), "")
    if has_time and starts[0]:
        timestamp = starts[0]["time"]
    event_id = found.get((recipe.id_header or "").lower(), "")
    if recipe.signs_time and not _is_time(timestamp):
        return f"This scheme signs the time too; paste {recipe.timestamp_header or recipe.signature_header}."
    if "{id}" in recipe.signed and not event_id:
        return f"This scheme signs the id too; paste {recipe.id_header}."
    return Signed(recipe, event_id, timestamp, signatures, url)


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_request(signed: Signed, body: bytes, secret: str, own_secrets: Sequence[str], *, now: float) -> Explanation:
    for secret_mistake, key in _keys_meant(signed.recipe, secret):
        for body_mistake, sent in _bodies_meant(body):
            if _fits(signed, key, sent):
                return _fitting(signed, [each for each in (secret_mistake, body_mistake) if each], now=now)
    intact = [mistake for own in own_secrets for mistake, sent in _bodies_meant(body) if _fits_own(signed, own, sent)]
    if intact and secret:
        return Explanation(
            False,
            "The wrong secret",
            "The request is genuine, and the secret you pasted is not this endpoint's: it was rotated away, belongs to"
            " another endpoint, or lost a character. Rotate the secret if you no longer have the right one.",
        )
    if intact:
        return _fitting(signed, [each for each in intact[:1] if each], now=now)
    return Explanation(
        False,
        "These do not belong together",
        "No secret here signs this body with this signature. Either the body is not the one that was sent (copy the raw"
        " bytes, before anything parses them), or it is another request's, or the secret is another endpoint's.",
    )


def _fitting(signed: Signed, mistakes: list[str], *, now: float) -> Explanation:
    if mistakes:
        return Explanation(False, "Nearly", f"It verifies once this is put right: {'; '.join(mistakes)}.")
    if not signed.recipe.signs_time:
        text = "Headers, body and secret fit together. This scheme signs no time, so an old request verifies for ever."
        return Explanation(True, "It verifies", text)
    age = now - int(signed.timestamp)
    if abs(age) > TOLERANCE_SECONDS:
        return Explanation(
            True,
            "It verifies",
            f"Headers, body and secret fit together. The timestamp is {abs(age) / 60:.0f} minutes away from now: a"
            " receiver should refuse it at this age, and every attempt carries a fresh one.",
        )
    return Explanation(True, "It verifies", "Headers, body and secret fit together, and the timestamp is fresh.")


def _keys_meant(recipe: Recipe, secret: str) -> Iterator[Variant]:
    """The key for this scheme, and what somebody meant who pasted something near it."""
    for mistake, text in (
        ("", secret),
        ("the secret has white space around it", secret.strip()),
        ("the secret lacks its whsec_ at the front", f"whsec_{secret.strip()}"),
    ):
        key = _key(recipe, text)
        if text and key:
            yield mistake, key


def _bodies_meant(body: bytes) -> Iterator[Variant]:
    yield "", body
    yield "the body has white space around it that was not sent", body.strip()
    for compact in _rewritten(body, ensure_ascii=False, separators=(",", ":")):
        yield (
            "the body was parsed and written again; what was sent is compact JSON, and only its raw bytes fit",
            compact,
        )


def _fits(signed: Signed, key: bytes, body: bytes) -> bool:
    shown = ENCODINGS[signed.recipe.encoding](hmac.digest(key, _message(signed, body), signed.recipe.hash))
    return any(hmac.compare_digest(shown.encode(), each.encode()) for each in signed.signatures)


def _fits_own(signed: Signed, secret: str, body: bytes) -> bool:
    key = _key(signed.recipe, secret)
    return key is not None and _fits(signed, key, body)


# ── what their code computed ─────────────────────────────────────────────────────────────────────────────────────────


def _check_computed(signed: Signed, body: bytes, secret: str, computed: str) -> Explanation | None:
    """The combination of mistakes that computes exactly this, the fewest first; None when it is not among them."""
    wanted = computed.removeprefix(signed.recipe.prefix).removeprefix("v1=").removeprefix("v1,")
    tried = [
        ([each for each in (key_mistake, message_mistake, encoding_mistake) if each], shown)
        for key_mistake, key in _keys_tried(signed.recipe, secret.strip())
        for message_mistake, message in _messages_tried(signed, body)
        for encoding_mistake, shown in _encodings(signed.recipe, key, message)
    ]
    for mistakes, shown in sorted(tried, key=lambda each: len(each[0])):
        if shown == wanted:
            if mistakes:
                text = f"Your code computes exactly this when {' and '.join(mistakes)}."
                return Explanation(False, "Found it", text)
            if wanted in signed.signatures:
                return Explanation(True, "Your code is right", "It computes the signature that was sent.")
            return None
    return None


def _keys_tried(recipe: Recipe, secret: str) -> Iterator[Variant]:
    whole, decoded = secret.encode(), _decoded(secret)
    if recipe.key == "text":
        yield "", whole
        yield "the key is the secret without its whsec_ (use the whole secret)", secret.removeprefix("whsec_").encode()
        if decoded:
            yield "the key is the decoded secret (this scheme uses the whole text, undecoded)", decoded
        return
    if decoded:
        yield "", decoded
    yield "the key is the secret's text (this scheme decodes the base64 after whsec_)", whole
    yield (
        "the key is the text after whsec_, not decoded (this scheme decodes its base64)",
        secret.removeprefix("whsec_").encode(),
    )


def _messages_tried(signed: Signed, body: bytes) -> Iterator[Variant]:
    form = signed.recipe.signed
    rule = form.replace("{", "<").replace("}", ">")
    for body_mistake, sent in _bodies_tried(body):
        tried = [("", _message(signed, sent))]
        if form.startswith("{timestamp}."):
            tried.append(("only the body is signed (the timestamp and a dot come first)", sent))
        elif form != "{body}":
            tried.append((f"only the body is signed (this scheme signs {rule})", sent))
        if "{timestamp}." in form:
            tried.append(("the dot after the timestamp is missing", signed.timestamp.encode() + sent))
        wrong = f"the wrong parts are signed: this scheme signs {rule}"
        others = {each.signed: each for each in READY_MADE.values() if each.signed not in (form, "{body}")}
        tried.extend((wrong, _written(other, signed, sent)) for other in others.values())
        for mistake, message in tried:
            yield " and ".join([each for each in (mistake, body_mistake) if each]), message


def _bodies_tried(body: bytes) -> Iterator[Variant]:
    yield "", body
    yield "the body has a line break at its end that was not sent", body.strip() + b"\n"
    words = "the body is parsed and written again before it is signed (use the raw bytes)"
    for options in (
        {"ensure_ascii": False, "separators": (",", ":")},
        {"separators": (",", ":")},
        {},
        {"ensure_ascii": False},
        {"sort_keys": True},
        {"sort_keys": True, "separators": (",", ":")},
        {"indent": 2},
    ):
        for written in _rewritten(body, **options):
            yield words, written


def _encodings(recipe: Recipe, key: bytes, message: bytes) -> Iterator[tuple[str, str]]:
    right, wrong = ("hex", "base64") if recipe.encoding == "hex" else ("base64", "hex")
    digest = hmac.digest(key, message, recipe.hash)
    yield "", ENCODINGS[right](digest)
    yield f"the result is written in {wrong}, which this scheme does not use", ENCODINGS[wrong](digest)
    # Another hash by itself: with every other mistake too, a large body would take long.
    for name in HASHES:
        if name != recipe.hash and len(message) < 64 * 1024:
            words = f"the hash is {name} (this scheme uses {recipe.hash})"
            yield words, ENCODINGS[right](hmac.digest(key, message, name))


# ── small things ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_time(text: str) -> bool:
    """Seconds as we write them. `isdigit` alone takes `²` for a digit, and no clock has hundreds of them."""
    return text.isascii() and text.isdigit() and len(text) <= 12


def _message(signed: Signed, body: bytes) -> bytes:
    return _written(signed.recipe, signed, body)


def _written(recipe: Recipe, signed: Signed, body: bytes) -> bytes:
    """What this recipe would sign of it."""
    before, _, after = (
        recipe.signed.replace("{timestamp}", signed.timestamp).replace("{id}", signed.event_id).partition("{body}")
    )
    return before.replace("{url}", signed.url).encode() + body + after.replace("{url}", signed.url).encode()


def _key(recipe: Recipe, secret: str) -> bytes | None:
    return secret.encode(errors="replace") if recipe.key == "text" else _decoded(secret)


def _decoded(secret: str) -> bytes | None:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return None


def _rewritten(body: bytes, **options: object) -> Iterator[bytes]:
    try:
        yield json.dumps(json.loads(body), **options).encode()  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        return
