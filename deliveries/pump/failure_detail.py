"""Part of send: what was seen of an attempt that got no answer, in words for people. Pure.

Consumers read these sentences. They hold no address, nothing that was sent as a custom header, and of what a receiver
said only the beginning, escaped.
"""

import re
import ssl
from collections.abc import Sequence
from itertools import accumulate

from deliveries.pump.exchange import Phase, Trail
from deliveries.pump.spellings import spellings, without, without_cut, without_signing_secrets
from subscriptions.guards.headers import RESERVED, RESERVED_PREFIXES

# Characters, so that a whole sentence fits the attempt's `error_detail`.
_SHOWN = 90
_WORD = 70
# A custom header shorter than this is no secret, and would be found anywhere.
_SHORTEST_SECRET = 4

_DOING: dict[Phase, str] = {
    "dns": "in the DNS lookup",
    "connect": "while connecting",
    "proxy": "while the egress proxy was connecting",
    "handshake": "in the TLS handshake",
    "sending": "while sending the request",
    "head": "while waiting for the head of the answer",
    "body": "while reading the body of the answer",
}

_ESCAPES = {ord("\r"): "\\r", ord("\n"): "\\n", ord("\t"): "\\t", ord('"'): '\\"', ord("\\"): "\\\\"}
_ALERT = re.compile(r"(?:sslv3|tlsv1|tlsv13) (?:alert )?(.+)")


def timed_out(trail: Trail, *, seconds: float, sent_headers: Sequence[tuple[str, str]]) -> str:
    return _joined(f"time ran out after {seconds:g} s {_DOING[trail.phase]}", seen(trail, sent_headers))


def broke_off(trail: Trail, *, sent_headers: Sequence[tuple[str, str]]) -> str:
    """For a connection that was made and then ended."""
    if not trail.connected:
        return ""
    return _joined(_DOING[trail.phase], seen(trail, sent_headers) or "no answer was received")


def not_http(trail: Trail, *, word: str, sent_headers: Sequence[tuple[str, str]]) -> str:
    return _joined(word[:_WORD], seen(trail, sent_headers))


def seen(trail: Trail, sent_headers: Sequence[tuple[str, str]]) -> str:
    """What came of an answer: its status if its head is complete, else its first bytes."""
    if trail.status_code is not None:
        return f"status {trail.status_code}"
    return f'received "{_escaped(_redacted(trail.received, sent_headers))}"' if trail.received else ""


def tls_failure(error: ssl.SSLError) -> str:
    """OpenSSL's reason or the alert's name. Python knows a reason for most alerts, and for the others a sentence."""
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    if not reason and len(error.args) > 1:
        reason = re.sub(r"\[[^]]*\]|\(_ssl[^)]*\)", "", str(error.args[1])).strip()
    words = str(reason or "").lower().replace("_", " ")
    if words == "unknown error":
        return "a TLS alert that has no name"
    alert = _ALERT.fullmatch(words)
    return f"TLS alert: {alert[1]}" if alert else words[:_WORD]


def _redacted(received: bytes, sent_headers: Sequence[tuple[str, str]]) -> bytes:
    """Before it is cut: half a secret is not found any more. The receiver itself may have ended within one."""
    custom = tuple(value for name, value in sent_headers if not _is_ours(name))
    spelled = spellings(custom, shortest=_SHORTEST_SECRET)
    text = without_signing_secrets(received.decode("latin-1"))
    return without(without_cut(text, spelled), spelled).encode("latin-1")


def _escaped(received: bytes) -> str:
    """Printable, and no longer than what there is room for."""
    pieces = [_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in received[:_SHOWN]]
    sizes = accumulate(map(len, pieces))
    shown = [piece for piece, size in zip(pieces, sizes, strict=True) if size <= _SHOWN]
    return "".join(shown) + ("…" if len(shown) < len(received) else "")


def _is_ours(name: str) -> bool:
    return name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIXES)


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))
