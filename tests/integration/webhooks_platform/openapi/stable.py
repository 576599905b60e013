"""Makes what differs between two runs the same: ids, times, secrets, durations, addresses."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

_ID = re.compile(r"\b(con|ep|evt|dlv|att|rpl|key|aud|vis)_[0-7][0-9a-hjkmnp-tv-z]{25}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_START = datetime(2026, 1, 31, 12, tzinfo=UTC)
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
# Whole values, by the name they stand under.
_VALUES: dict[str, Any] = {
    "duration_ms": 12, "p50": 12.5, "p95": 19.3, "p99": 19.9, "key": "whk_live_the-whole-key-shown-once",
    "hint": "whk_live_the", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}  # fmt: skip
# Of headers, by their names.
_HEADERS = {
    "webhook-timestamp": "1769860801", "date": "Sat, 31 Jan 2026 12:00:01 GMT", "server": "receiver",
    "webhook-signature": f"t=1769860801,v1={'5257a869' * 8}",
}  # fmt: skip


class Stable:
    """One run. The same value becomes the same thing wherever it stands."""

    def __init__(self, *, receiver_url: str) -> None:
        self._receiver_url = receiver_url
        self._ids: dict[str, str] = {}
        self._times: dict[str, str] = {}

    def told(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self.told(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            if len(value) == 2 and isinstance(value[0], str) and value[0].lower() in _HEADERS:
                return [value[0], _HEADERS[value[0].lower()]]
            return [self.told(inner) for inner in value]
        if name in _VALUES and value is not None and not (name == "key" and str(value).startswith("key_")):
            return _VALUES[name]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = text.replace(self._receiver_url, "https://hooks.acme.example/webhooks").replace(
            "http://testserver", "https://webhooks.example"
        )
        text = _ID.sub(lambda found: self._id(found[0], found[1]), text)
        text = _TIME.sub(lambda found: self._time(found[0]), text)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "2026-01-31 13:00:00 UTC", text)
        text = re.sub(r"(cursor=)[\w%-]+", r"\1WyIwMTljMTM3MyJd", text)
        text = re.sub(r"/portal/enter/[^/]+", "/portal/enter/the-token-shown-once", text)
        return re.sub(r"\b\d+ ms\b", "12 ms", text)

    def _id(self, text: str, prefix: str) -> str:
        tens, ones = divmod(len(self._ids), 32)
        return self._ids.setdefault(text, f"{prefix}_01m7h3xmx1es6vbckezbxg7h{_DIGITS[tens]}{_DIGITS[ones]}")

    def _time(self, text: str) -> str:
        """In the order in which they are met; one that was sent stays what it is."""
        at = datetime.fromisoformat(text)
        if abs(at - datetime.now(UTC)) > timedelta(days=60):
            return text
        shown = _START + timedelta(seconds=len(self._times))
        return self._times.setdefault(text, shown.isoformat(timespec="microseconds").replace("+00:00", "Z"))
