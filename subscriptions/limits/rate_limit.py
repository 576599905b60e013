"""A limit on requests per owner, however many API keys it has: the same across web processes, open without Redis."""

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from subscriptions.limits.optional_redis import quick_redis

# A process takes as many requests at a time as the owner may send in this many seconds, at least one, so that a busy
# one does not ask Redis each time. What it does not use within a moment is forgone.
_AHEAD_SECONDS = 0.01
_HELD_SECONDS = 1.0
_HELD_KEYS = 1000

# The generic cell rate algorithm: one number per key, the moment at which its burst would be whole again.
TAKE = """
    local interval = tonumber(ARGV[1])
    local burst = tonumber(ARGV[2])
    local clock = redis.call('TIME')
    local now = clock[1] * 1000000 + clock[2]
    -- Never further away than the whole burst, unless the clock was set back.
    local whole_at = math.min(math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now), now + burst * interval)
    local free = math.floor((burst * interval - (whole_at - now)) / interval)
    if free < 1 then
        return {0, 0, math.ceil(whole_at - now - (burst - 1) * interval), whole_at - now}
    end
    local taken = math.min(free, tonumber(ARGV[3]))
    whole_at = whole_at + taken * interval
    redis.call('SET', KEYS[1], whole_at, 'PX', math.ceil((whole_at - now) / 1000) + 1000)
    return {taken, free - taken, 0, whole_at - now}
"""
"""Takes requests from the key's burst: {taken, free after that, microseconds to wait, microseconds until whole}."""


@dataclass(frozen=True, slots=True)
class Allowance:
    limit: int
    remaining: int
    reset_seconds: int
    # None when this request may go on.
    retry_after_seconds: int | None

    @property
    def headers(self) -> dict[str, str]:
        shown = {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_seconds),
        }
        if self.retry_after_seconds is not None:
            shown["Retry-After"] = str(self.retry_after_seconds)
        return shown


@dataclass(slots=True)
class _Held:
    count: int
    free: int
    reset_seconds: int
    until: float


_held: dict[str, _Held] = {}
_lock = threading.Lock()


def take(key: str, *, rate: int | None = None, burst: int | None = None) -> Allowance | None:
    """None where no limit is set, or Redis does not answer. The API's own limit unless another is given."""
    rate = settings.API_RATE_PER_SECOND if rate is None else rate
    burst = settings.API_RATE_BURST if burst is None else burst
    if rate <= 0:
        return None
    return _from_held(key, burst) or _from_redis(key, rate, burst)


def _from_held(key: str, burst: int) -> Allowance | None:
    with _lock:
        held = _held.get(key)
        if held is None or held.count < 1 or time.monotonic() > held.until:
            return None
        held.count -= 1
        return Allowance(burst, held.free + held.count, held.reset_seconds, retry_after_seconds=None)


def _from_redis(key: str, rate: int, burst: int) -> Allowance | None:
    wanted = max(1, int(rate * _AHEAD_SECONDS))
    found: Any = quick_redis().ask(
        lambda client: client.eval(TAKE, 1, f"webhooks:rate:{key}", 1_000_000 / rate, burst, wanted), default=None
    )
    if found is None:
        return None
    taken, free, wait, until_whole = (int(value) for value in found)
    reset_seconds = math.ceil(until_whole / 1_000_000)
    if not taken:
        return Allowance(burst, 0, reset_seconds, retry_after_seconds=max(1, math.ceil(wait / 1_000_000)))
    if taken > 1:
        _hold(key, taken - 1, free, reset_seconds)
    return Allowance(burst, free + taken - 1, reset_seconds, retry_after_seconds=None)


def _hold(key: str, count: int, free: int, reset_seconds: int) -> None:
    """On top of what others took meanwhile: callers who come at the same moment all ask Redis."""
    with _lock:
        held, now = _held.get(key), time.monotonic()
        if held is not None and now <= held.until:
            count += held.count
        elif len(_held) >= _HELD_KEYS:
            _held.clear()
        _held[key] = _Held(count, free, reset_seconds, now + _HELD_SECONDS)
