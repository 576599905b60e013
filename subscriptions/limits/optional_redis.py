"""Redis for what may be skipped: rate limits. It never fails a request, and delays one by a moment at worst."""

import threading
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
    """A circuit breaker around a client with short timeouts. Threads share it."""

    def __init__(self, client: "redis.Redis", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._is_away = False
        self._away_until = 0.0
        self._lock = threading.Lock()

    def ask(self, question: Callable[["redis.Redis"], T], *, default: T) -> T:
        """What Redis says, or the default when it does not answer quickly."""
        if self._is_away and not self._may_try():
            return default
        try:
            answer = question(self._client)
        except redis.RedisError:
            self._away_until = self._clock() + _PAUSE_SECONDS
            self._is_away = True
            return default
        self._is_away = False
        return answer

    def _may_try(self) -> bool:
        """After the pause, one caller finds out for all: the others would only wait beside it."""
        with self._lock:
            if self._clock() < self._away_until:
                return False
            self._away_until = self._clock() + _PAUSE_SECONDS
            return True


@lru_cache(maxsize=1)
def quick_redis() -> QuickRedis:
    timeout = settings.REDIS_TIMEOUT_SECONDS
    return QuickRedis(redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=timeout, socket_timeout=timeout))
