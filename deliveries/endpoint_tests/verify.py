"""Verify a request as a receiver should, and name the mistake where it fails. Pure; keeps nothing of what it is given.

First the request itself: do these headers, this body and this secret fit together, and if not, which of them changed?
Then, where somebody says what their own code computed: which classic mistake computes exactly that?
"""

import base64
import binascii
import hmac
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TOLERANCE_SECONDS = 300

Variant = tuple[str, bytes]  # the mistake in words, empty for none; what it makes of the thing


@dataclass(frozen=True, slots=True)
class Explanation:
    sound: bool
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Signed:
    """What the headers say."""

    scheme: str
    event_id: str
    timestamp: str
    signatures: tuple[str, ...]


def explain(
    *, headers: str, body: str, secret: str, computed: str = "", own_secrets: Sequence[str] = (), now: float
) -> Explanation:
    """`own_secrets` are those the endpoint really has, where it is known which endpoint this is about."""
    signed = read_headers(headers)
    if isinstance(signed, str):
        return Explanation(False, "The headers are not complete", signed)
    request = _check_request(signed, body.replace("\r\n", "\n").encode(), secret, own_secrets, now=now)
    if computed.strip() and secret:
        return _check_computed(signed, body.replace("\r\n", "\n").encode(), secret, computed.strip()) or request
    return request


def read_headers(text: str) -> Signed | str:
    """What is needed of the pasted headers, or what is wrong with them."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        # Frameworks show them as HTTP_WEBHOOK_ID or webhook_id.
        found[name.strip().strip("\"'").lower().replace("_", "-").removeprefix("http-")] = value.strip().strip("\"',")
    header, event_id = found.get("webhook-signature", ""), found.get("webhook-id", "")
    if not header:
        return "There is no webhook-signature among them. Header names come in any case."
    if header.startswith("t="):
        timestamp, *given = header.removeprefix("t=").split(",")
        signatures = tuple(each.strip().removeprefix("v1=") for each in given if each.strip().startswith("v1="))
        if _is_time(timestamp) and signatures:
            return Signed("timestamped", event_id, timestamp, signatures)
        return "The webhook-signature is cut short: it should read t=<seconds>,v1=<hex>."
    signatures = tuple(each.removeprefix("v1,") for each in header.split() if each.startswith("v1,"))
    timestamp = found.get("webhook-timestamp", "")
    if not signatures:
        return "The webhook-signature is not one of ours: it begins with t= or with v1,"
    if not event_id or not _is_time(timestamp):
        return "This scheme signs the webhook-id and the webhook-timestamp too; paste both."
    return Signed("standard", event_id, timestamp, signatures)


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_request(signed: Signed, body: bytes, secret: str, own_secrets: Sequence[str], *, now: float) -> Explanation:
    for secret_mistake, key in _keys_meant(signed.scheme, secret):
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
    age = now - int(signed.timestamp)
    if abs(age) > TOLERANCE_SECONDS:
        return Explanation(
            True,
            "It verifies",
            f"Headers, body and secret fit together. The timestamp is {abs(age) / 60:.0f} minutes away from now: a"
            " receiver should refuse it at this age, and every attempt carries a fresh one.",
        )
    return Explanation(True, "It verifies", "Headers, body and secret fit together, and the timestamp is fresh.")


def _keys_meant(scheme: str, secret: str) -> Iterator[Variant]:
    """The key for this scheme, and what somebody meant who pasted something near it."""
    for mistake, text in (
        ("", secret),
        ("the secret has white space around it", secret.strip()),
        ("the secret lacks its whsec_ at the front", f"whsec_{secret.strip()}"),
    ):
        key = _key(scheme, text)
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
    digest = hmac.digest(key, _message(signed, body), "sha256")
    shown = digest.hex() if signed.scheme == "timestamped" else base64.b64encode(digest).decode()
    return any(hmac.compare_digest(shown.encode(), each.encode()) for each in signed.signatures)


def _fits_own(signed: Signed, secret: str, body: bytes) -> bool:
    key = _key(signed.scheme, secret)
    return key is not None and _fits(signed, key, body)


# ── what their code computed ─────────────────────────────────────────────────────────────────────────────────────────


def _check_computed(signed: Signed, body: bytes, secret: str, computed: str) -> Explanation | None:
    """The combination of mistakes that computes exactly this, the fewest first; None when it is not among them."""
    wanted = computed.removeprefix("v1=").removeprefix("v1,")
    tried = [
        ([each for each in (key_mistake, message_mistake, encoding_mistake) if each], shown)
        for key_mistake, key in _keys_tried(signed.scheme, secret.strip())
        for message_mistake, message in _messages_tried(signed, body)
        for encoding_mistake, shown in _encodings(signed.scheme, hmac.digest(key, message, "sha256"))
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


def _keys_tried(scheme: str, secret: str) -> Iterator[Variant]:
    whole, decoded = secret.encode(), _decoded(secret)
    if scheme == "timestamped":
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
    for body_mistake, sent in _bodies_tried(body):
        both = " and ".join
        for mistake, message in (
            ("", _message(signed, sent)),
            ("only the body is signed (the timestamp and a dot come first)", sent),
            ("the dot after the timestamp is missing", signed.timestamp.encode() + sent),
            (
                "the wrong parts are signed: this scheme signs "
                + ("<timestamp>.<body>" if signed.scheme == "timestamped" else "<id>.<timestamp>.<body>"),
                _message(_other(signed), sent),
            ),
        ):
            yield both([each for each in (mistake, body_mistake) if each]), message


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


def _encodings(scheme: str, digest: bytes) -> Iterator[tuple[str, str]]:
    in_hex, in_base64 = digest.hex(), base64.b64encode(digest).decode()
    right, wrong = (in_hex, in_base64) if scheme == "timestamped" else (in_base64, in_hex)
    yield "", right
    yield f"the result is written in {'base64' if wrong == in_base64 else 'hex'}, which this scheme does not use", wrong


# ── small things ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_time(text: str) -> bool:
    """Seconds as we write them. `isdigit` alone takes `²` for a digit, and no clock has hundreds of them."""
    return text.isascii() and text.isdigit() and len(text) <= 12


def _message(signed: Signed, body: bytes) -> bytes:
    if signed.scheme == "timestamped":
        return f"{signed.timestamp}.".encode() + body
    return f"{signed.event_id}.{signed.timestamp}.".encode() + body


def _other(signed: Signed) -> Signed:
    scheme = "standard" if signed.scheme == "timestamped" else "timestamped"
    return Signed(scheme, signed.event_id, signed.timestamp, signed.signatures)


def _key(scheme: str, secret: str) -> bytes | None:
    return secret.encode(errors="replace") if scheme == "timestamped" else _decoded(secret)


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
