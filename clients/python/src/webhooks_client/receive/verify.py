"""Is this request the platform's, whole and fresh? If not: what is wrong with it?

Two schemes, told apart by the header itself. `timestamped` is `t=<seconds>,v1=<hex>[,v1=<hex>]` over
`<seconds>.<body>`, keyed with the whole secret. `standard` is Standard Webhooks: `v1,<base64>[ v1,<base64>]` over
`<id>.<seconds>.<body>`, keyed with the base64-decoded part after `whsec_`.

Verifying takes one HMAC for each secret and compares in constant time. Looking for the mistake takes more, and parses
what nobody signed, so it happens only when somebody asks: see `VerificationError.explain`.
"""

import base64
import binascii
import hmac
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from webhooks_client.receive.event import Event

TOLERANCE_SECONDS = 300
_LARGEST_EXPLAINED_BYTES = 1_000_000

Scheme = Literal["timestamped", "standard"]
Reason = Literal["no_secret", "missing_header", "bad_header", "wrong_signature", "wrong_time", "no_event"]


@dataclass(frozen=True, slots=True)
class _Signed:
    """What the headers say."""

    scheme: Scheme
    event_id: str
    timestamp: str
    signatures: tuple[bytes, ...]


class VerificationError(Exception):
    """The request is not to be trusted: answer 401 (400 for `no_event`) and do nothing.

    `reason` is a stable word, the text a sentence. `explain()` looks for the classic mistake behind a wrong signature.
    """

    def __init__(self, reason: Reason, detail: str, *, evidence: "_Evidence | None" = None) -> None:
        super().__init__(detail)
        self.reason: Reason = reason
        self.detail = detail
        self._evidence = evidence

    def explain(self) -> str:
        """The detail, and the mistake if it is a classic one. Costs more HMACs: not for every stranger."""
        found = self._evidence.mistake() if self._evidence else None
        return f"{self.detail} {found}" if found else self.detail


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    tolerance: float = TOLERANCE_SECONDS,
    *,
    now: float | None = None,
) -> Event:
    """The event in a genuine, fresh request; raises VerificationError for any other.

    `body` is the raw bytes as they came. `secrets` is one or several: during a rotation, the old one and the new one.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError("verify() needs the raw bytes of the body, before anything has decoded or parsed it.")
    body = bytes(body)
    known = [secrets] if isinstance(secrets, str) else list(secrets)
    if not any(known):
        raise VerificationError("no_secret", "No secret is configured, so nothing can be verified.")
    signed = _read(headers)
    if not _is_signed(signed, body, known):
        raise VerificationError(
            "wrong_signature",
            "No signature of this request fits its body and the configured secrets.",
            evidence=_Evidence(signed, body, tuple(known)),
        )
    age = (time.time() if now is None else now) - int(signed.timestamp)
    # Not `>`: a tolerance that is no number lets nothing pass.
    if not abs(age) <= tolerance:
        when = "old." if age > 0 else "in the future: is the clock right?"
        raise VerificationError("wrong_time", f"The signature is right, but its time is {abs(age):.0f} s {when}")
    return _event(body, headers, signed)


def _read(headers: Mapping[str, str]) -> _Signed:
    found = {_name(name): value for name, value in headers.items()}
    header = found.get("webhook-signature", "").strip()
    event_id = found.get("webhook-id", "").strip()
    if not header:
        raise VerificationError(
            "missing_header", "There is no webhook-signature header. Does a proxy remove it, or is this no webhook?"
        )
    if header.startswith("t="):
        fields = [part.strip().partition("=")[::2] for part in header.split(",")]
        timestamp = fields[0][1]
        signatures = tuple(value.encode(errors="replace") for name, value in fields if name == "v1")
        if not _is_time(timestamp) or not signatures:
            raise VerificationError("bad_header", "The webhook-signature is cut short: t=<seconds>,v1=<hex> is whole.")
        return _Signed("timestamped", event_id, timestamp, signatures)
    signatures = tuple(part[3:].encode(errors="replace") for part in header.split() if part.startswith("v1,"))
    timestamp = found.get("webhook-timestamp", "").strip()
    if not signatures:
        raise VerificationError("bad_header", "The webhook-signature has no v1 signature in a form that is known here.")
    missing = [name for name in ("webhook-id", "webhook-timestamp") if not found.get(name)]
    if missing:
        raise VerificationError("missing_header", f"This scheme also signs {' and '.join(missing)}: missing.")
    if not _is_time(timestamp):
        raise VerificationError("bad_header", "The webhook-timestamp is no number of seconds.")
    return _Signed("standard", event_id, timestamp, signatures)


def _name(name: str) -> str:
    """Also as WSGI and PHP spell it: HTTP_WEBHOOK_ID."""
    return name.lower().replace("_", "-").removeprefix("http-")


def _is_signed(signed: _Signed, body: bytes, secrets: Sequence[str]) -> bool:
    """Every secret and every signature is looked at, whichever fits."""
    fits = False
    for secret in secrets:
        key = _key(signed.scheme, secret)
        if key:
            fits |= _fits(signed, key, body)
    return fits


def _fits(signed: _Signed, key: bytes, body: bytes) -> bool:
    expected = _shown(signed.scheme, hmac.digest(key, _message(signed, body), "sha256"))
    fits = False
    for signature in signed.signatures:
        fits |= hmac.compare_digest(expected, signature)
    return fits


def _event(body: bytes, headers: Mapping[str, str], signed: _Signed) -> Event:
    found = {_name(name): value for name, value in headers.items()}
    attempt = found.get("webhook-attempt", "")
    try:
        payload = json.loads(body)
        if not isinstance(payload, dict):
            raise ValueError("The body is no JSON object.")
        event = Event.of(payload, attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else 1)
    except (ValueError, RecursionError) as error:
        raise VerificationError("no_event", f"The signature is right, but this is no event: {error}") from None
    # The timestamped scheme signs the body and not the headers, so the id inside is the one to trust.
    if signed.event_id and signed.event_id != event.id:
        raise VerificationError("no_event", "The webhook-id header is not the id in the signed body.")
    return event


# ── the mistake ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A request that did not verify. Its secrets never show."""

    signed: _Signed
    body: bytes
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return "<evidence>"

    def mistake(self) -> str | None:
        """What has to be put right for it to verify, or None."""
        if len(self.body) > _LARGEST_EXPLAINED_BYTES:
            return None
        bodies = list(_bodies(self.body))
        for signed, scheme_mistake in self._schemes():
            for key, key_mistake in self._keys(signed.scheme):
                for body, body_mistake in bodies:
                    if _fits(signed, key, body):
                        found = [each for each in (scheme_mistake, key_mistake, body_mistake) if each]
                        return f"It verifies once this is put right: {'; '.join(found)}." if found else None
        return "It was signed with another secret (rotated away? another endpoint's?), or changed on the way."

    def _schemes(self) -> Iterator[tuple[_Signed, str]]:
        yield self.signed, ""
        # The right bytes, written into the header as the other scheme writes them.
        other: Scheme = "standard" if self.signed.scheme == "timestamped" else "timestamped"
        digests = [_digest(self.signed.scheme, signature) for signature in self.signed.signatures]
        rewritten = tuple(_shown(other, digest) for digest in digests if digest)
        if rewritten and (self.signed.event_id or other == "timestamped"):
            signed = _Signed(other, self.signed.event_id, self.signed.timestamp, rewritten)
            yield signed, f"the signature is written as {self.signed.scheme}, but was made as {other}"

    def _keys(self, scheme: str) -> Iterator[tuple[bytes, str]]:
        for secret in self.secrets:
            bare = secret.strip()
            for text, mistake in (
                (secret, ""),
                (bare, "the secret has white space around it"),
                (f"whsec_{bare}", "the secret lacks its whsec_ at the front"),
                (bare.removeprefix("whsec_"), "the secret has a whsec_ at the front that is not part of it"),
            ):
                if (key := _key(scheme, text)) is not None:
                    yield key, mistake
            decoded = _decoded(bare)
            if scheme == "timestamped" and decoded:
                yield decoded, "the sender's key is the decoded secret, which is the other scheme's"
            if scheme == "standard":
                yield bare.encode(), "the sender's key is the secret's text, which is the other scheme's"


def _bodies(body: bytes) -> Iterator[tuple[bytes, str]]:
    yield body, ""
    yield body.strip(), "the body has white space around it that was not sent"
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return
    mistake = "the body was parsed and written again before it was verified; verify the raw bytes"
    for ensure_ascii in (False, True):
        for separators in ((",", ":"), (", ", ": ")):
            yield json.dumps(parsed, ensure_ascii=ensure_ascii, separators=separators).encode(), mistake


# ── small things ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def _message(signed: _Signed, body: bytes) -> bytes:
    before = f"{signed.timestamp}." if signed.scheme == "timestamped" else f"{signed.event_id}.{signed.timestamp}."
    return before.encode() + body


def _key(scheme: str, secret: str) -> bytes | None:
    return (secret.encode() or None) if scheme == "timestamped" else _decoded(secret)


def _decoded(secret: str) -> bytes | None:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def _shown(scheme: str, digest: bytes) -> bytes:
    return digest.hex().encode() if scheme == "timestamped" else base64.b64encode(digest)


def _digest(scheme: str, signature: bytes) -> bytes | None:
    try:
        return bytes.fromhex(signature.decode()) if scheme == "timestamped" else base64.b64decode(signature)
    except (ValueError, UnicodeDecodeError):
        return None


def sign(
    body: bytes,
    *,
    secret: str,
    event_id: str,
    timestamp: int,
    scheme: Scheme = "timestamped",
) -> dict[str, str]:
    """The headers of a genuine request: for tests, and for `webhooks listen`."""
    signed = _Signed(scheme, event_id, str(timestamp), ())
    key = _key(scheme, secret)
    if key is None:
        raise ValueError("This secret cannot sign: it is empty, or no base64 after whsec_.")
    shown = _shown(scheme, hmac.digest(key, _message(signed, body), "sha256")).decode()
    return {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"t={timestamp},v1={shown}" if scheme == "timestamped" else f"v1,{shown}",
        "webhook-attempt": "1",
        "idempotency-key": event_id,
    }
