"""Part of deliver: how a pump hears the bell, and how pumps tell each other.

Redis may be away at any time: then nothing is heard, the sweep goes on alone, and each pump sees to itself. One that
hangs costs no more than one that is gone: each question has its time, and after one without an answer nobody asks again
for a moment. Nobody asks Redis while holding a database connection.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from uuid import UUID

import redis.asyncio
import redis.exceptions

from deliveries import bell

# The bell is waited for this long at a time (seconds).
_WAIT_SECONDS = 1
# Any answer comes sooner than this (seconds), whatever else the machine does.
_ANSWER_SECONDS = 0.5
# After a question without an answer, Redis is left alone for this long (seconds).
_AWAY_SECONDS = 1.0
# After any failure, the bell is listened to again after this long (seconds).
_ERROR_PAUSE = 0.5
# A pump that has nothing to do hears a ring sooner than this (seconds).
_UNHEARD_SECONDS = 0.05
# With so many endpoints ready, only every so many sweeps look for more.
_PLENTY = 1000
_SWEEPS_AMID_PLENTY = 5

logger = logging.getLogger(__name__)


class RedisAway(Exception):
    """It did not do what it was asked to, or did not answer a moment ago."""


class Listener:
    """One pump's."""

    def __init__(
        self, client: "redis.asyncio.Redis", *, sweep_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._sweep_seconds = sweep_seconds
        self._clock = clock
        self._left_alone_until = 0.0
        # Whether it takes what we write: one that is full lets us listen, but takes no message to start a pump.
        self.works = True

    async def hear(self, wanted: Callable[[], int]) -> list[UUID]:
        """Endpoints that have something to send, or none after a while.

        How many are `wanted` is asked when there are any: a pump may have come by others meanwhile.
        """
        try:
            heard = await self._ask(
                lambda client: client.bzpopmin(bell.READY, timeout=_WAIT_SECONDS), seconds=_WAIT_SECONDS
            )
            if heard is None:
                return []
            most = wanted() - 1
            more = await self._ask(lambda client: client.zpopmin(bell.READY, most)) if most > 0 else []
            return [UUID(member.decode()) for member in [heard[1], *(member for member, _ in more)]]
        except (RedisAway, ValueError):
            await asyncio.sleep(_ERROR_PAUSE)
            return []

    async def share(self, endpoint_ids: Iterable[UUID]) -> bool:
        """Whether the bell has them now."""
        scores = {endpoint_id.hex: time.time() for endpoint_id in endpoint_ids}
        try:
            await self._ask(lambda client: client.zadd(bell.READY, scores, nx=True))
        except RedisAway:
            return False
        return True

    async def hand_on(self, endpoint_ids: Iterable[UUID]) -> None:
        """For pumps with nothing to do. While somebody waits in the bell for longer than they take, there is none."""
        try:
            oldest = await self._ask(lambda client: client.zrange(bell.READY, 0, 0, withscores=True))
        except RedisAway:
            return
        if not oldest or time.time() - oldest[0][1] <= _UNHEARD_SECONDS:
            await self.share(endpoint_ids)

    async def is_my_turn(self) -> bool:
        """All pumps together sweep once per interval. Without Redis each sees to itself."""
        try:
            mine = await self._take_turn(bell.SWEPT, seconds=self._sweep_seconds * 0.9)
        except RedisAway:
            return True
        self.works = True
        return mine

    async def has_plenty(self, *, at_hand: int) -> bool:
        """While there is enough, here and in the bell, a look for more brings little: so only now and then."""
        try:
            if at_hand + await self._ask(lambda client: client.zcard(bell.READY)) < _PLENTY:
                return False
            seconds = self._sweep_seconds * _SWEEPS_AMID_PLENTY
            return not await self._take_turn(bell.SWEPT_AMID_PLENTY, seconds=seconds)
        except RedisAway:
            return False

    async def _take_turn(self, mark: str, *, seconds: float) -> bool:
        milliseconds = str(max(1, int(seconds * 1000)))
        return bool(await self._ask(lambda client: client.eval(bell.TAKE_TURN, 1, mark, milliseconds)))

    async def _ask(
        self, question: Callable[["redis.asyncio.Redis"], Awaitable[Any] | Any], *, seconds: float = 0
    ) -> Any:
        """The answer, which may take as many seconds as the question itself says, and a moment."""
        if self._clock() < self._left_alone_until:
            raise RedisAway
        try:
            async with asyncio.timeout(seconds + _ANSWER_SECONDS):
                return await question(self._client)
        except redis.exceptions.ResponseError as error:
            # It is there, but will not have it: full, for example.
            self._is_away(error)
            raise RedisAway from error
        except (redis.exceptions.RedisError, OSError) as error:
            self._left_alone_until = self._clock() + _AWAY_SECONDS
            self._is_away(error)
            raise RedisAway from error

    def _is_away(self, error: Exception) -> None:
        if self.works:
            logger.warning("bell.unheard", extra={"fields": {"error": repr(error)}})
        self.works = False
