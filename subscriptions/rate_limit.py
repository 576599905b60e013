"""A limit on requests per API key, the same across all web processes. Open when Redis is away."""

import math
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from subscriptions.quick_redis import quick_redis

# The generic cell rate algorithm: one number per key, the moment at which its burst would be whole again.
TAKE_ONE = """
    local interval = tonumber(ARGV[1])
    local burst = tonumber(ARGV[2])
    local clock = redis.call('TIME')
    local now = clock[1] * 1000000 + clock[2]
    local whole_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
    local free = math.floor((burst * interval - (whole_at - now)) / interval)
    if free < 1 then
        return {0, math.ceil(whole_at - now - (burst - 1) * interval), whole_at - now}
    end
    redis.call('SET', KEYS[1], whole_at + interval, 'PX', math.ceil((whole_at + interval - now) / 1000) + 1000)
    return {free, 0, whole_at + interval - now}
"""
"""Takes one request from the key's burst: {free before it, microseconds to wait, microseconds until whole again}."""


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


def take(key: str) -> Allowance | None:
    """None where no limit is set, or Redis does not answer."""
    rate, burst = settings.API_RATE_PER_SECOND, settings.API_RATE_BURST
    if rate <= 0:
        return None
    interval = 1_000_000 / rate
    found: Any = quick_redis().ask(
        lambda client: client.eval(TAKE_ONE, 1, f"webhooks:rate:{key}", interval, burst), default=None
    )
    if found is None:
        return None
    free, wait, until_whole = (int(value) for value in found)
    return Allowance(
        limit=burst,
        remaining=max(0, free - 1),
        reset_seconds=math.ceil(until_whole / 1_000_000),
        retry_after_seconds=None if free >= 1 else max(1, math.ceil(wait / 1_000_000)),
    )
