"""Redis for what may be skipped: rate limits, hints. It never fails a request, and delays one by a moment at worst."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import redis
from django.conf import settings

T = TypeVar("T")

# After a failure, do without for this long (seconds): an outage costs one request per process and second, not each.
_PAUSE_SECONDS = 1.0


class QuickRedis:
    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        self._away_until = 0.0

    def ask(self, question: Callable[["redis.Redis"], T], *, default: T) -> T:
        """What Redis says, or the default when it does not answer quickly."""
        if time.monotonic() < self._away_until:
            return default
        try:
            return question(self._client)
        except redis.RedisError:
            self._away_until = time.monotonic() + _PAUSE_SECONDS
            return default


@lru_cache(maxsize=1)
def quick_redis() -> QuickRedis:
    timeout = settings.REDIS_TIMEOUT_SECONDS
    return QuickRedis(redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=timeout, socket_timeout=timeout))
