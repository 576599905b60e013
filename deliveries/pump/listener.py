"""Part of deliver: how a pump hears the bell, and how pumps tell each other.

Redis may be away at any time: then nothing is heard, the sweep goes on alone, and each pump sees to itself.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import redis.asyncio
import redis.exceptions

from deliveries import bell

# The bell is waited for this long at a time (seconds).
_WAIT_SECONDS = 1
# After a failure, before the next try (seconds).
_ERROR_PAUSE = 0.5
# A pump that has nothing to do hears a ring sooner than this (seconds).
_UNHEARD_SECONDS = 0.05
# With so many endpoints ready, only every so many sweeps look for more.
_PLENTY = 1000
_SWEEPS_AMID_PLENTY = 5

logger = logging.getLogger(__name__)


class Listener:
    """One pump's."""

    def __init__(self, client: "redis.asyncio.Redis", *, sweep_seconds: float) -> None:
        self._client = client
        self._sweep_seconds = sweep_seconds
        # Whether it takes what we write: one that is full lets us listen, but takes no message to start a pump.
        self.works = True

    async def hear(self, wanted: Callable[[], int]) -> list[UUID]:
        """Endpoints that have something to send, or none after a while.

        How many are `wanted` is asked when there are any: a pump may have come by others meanwhile.
        """
        try:
            heard: Any = await self._client.bzpopmin(bell.READY, timeout=_WAIT_SECONDS)
            if heard is None:
                return []
            most = wanted() - 1
            more: Any = await self._client.zpopmin(bell.READY, most) if most > 0 else []
            return [UUID(member.decode()) for member in [heard[1], *(member for member, _ in more)]]
        except (redis.exceptions.RedisError, OSError, ValueError) as error:
            self._is_away(error)
            await asyncio.sleep(_ERROR_PAUSE)
            return []

    async def share(self, endpoint_ids: Iterable[UUID]) -> bool:
        """Whether the bell has them now."""
        try:
            await self._client.zadd(bell.READY, {endpoint_id.hex: time.time() for endpoint_id in endpoint_ids}, nx=True)
        except (redis.exceptions.RedisError, OSError) as error:
            self._is_away(error)
            return False
        return True

    async def hand_on(self, endpoint_ids: Iterable[UUID]) -> None:
        """For pumps with nothing to do. While somebody waits in the bell for longer than they take, there is none."""
        try:
            oldest: Any = await self._client.zrange(bell.READY, 0, 0, withscores=True)
            if oldest and time.time() - oldest[0][1] > _UNHEARD_SECONDS:
                return
        except (redis.exceptions.RedisError, OSError) as error:
            self._is_away(error)
            return
        await self.share(endpoint_ids)

    async def is_my_turn(self) -> bool:
        """All pumps together sweep once per interval. Without Redis each sees to itself."""
        try:
            mine = await self._take_turn(bell.SWEPT, seconds=self._sweep_seconds * 0.9)
        except (redis.exceptions.RedisError, OSError) as error:
            self._is_away(error)
            return True
        self.works = True
        return mine

    async def has_plenty(self, *, at_hand: int) -> bool:
        """While there is enough, here and in the bell, a look for more brings little: so only now and then."""
        try:
            if at_hand + await self._client.zcard(bell.READY) < _PLENTY:
                return False
            seconds = self._sweep_seconds * _SWEEPS_AMID_PLENTY
            return not await self._take_turn(bell.SWEPT_AMID_PLENTY, seconds=seconds)
        except (redis.exceptions.RedisError, OSError):
            return False

    async def _take_turn(self, mark: str, *, seconds: float) -> bool:
        answer: Any = self._client.eval(bell.TAKE_TURN, 1, mark, str(max(1, int(seconds * 1000))))
        return bool(await answer)

    def _is_away(self, error: Exception) -> None:
        if self.works:
            logger.warning("bell.unheard", extra={"fields": {"error": repr(error)}})
        self.works = False
