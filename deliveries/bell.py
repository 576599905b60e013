"""Step: ring. Tells the pumps which endpoints have work. Lost, doubled or late, it changes latency and nothing else.

The bell is a Redis sorted set of endpoint ids, oldest ring first; running pumps wait on it. A Celery message starts a
pump where none runs; many rings share one message. A caller hands over and goes on: a thread of this process does the
talking, so Redis can neither delay nor fail a request. What is lost here, the sweep finds.
"""

import logging
import threading
import time
from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

import redis
from celery import current_app
from django.conf import settings

# The name of the Celery task that is a pump (tasks.py). It is started by name: the bell knows nothing of pumps.
PUMP = "deliveries.deliver_due"
READY = "webhooks:ready"
# Whoever sets this sweeps for all pumps, until it has expired.
SWEPT = "webhooks:swept"
# The same for the sweeps of a time when the bell is full.
SWEPT_AMID_PLENTY = "webhooks:swept_amid_plenty"
_RUNG = "webhooks:rung"
# Celery's own list of messages. While every worker runs a pump nobody takes them, and more would only pile up.
_QUEUE = "deliveries"
_MOST_MESSAGES = 100
# At most one message per this time says that pumps are wanted (milliseconds).
_COALESCE_MS = 500
# After a failed ring, leave Redis alone for this long (seconds).
_PAUSE_SECONDS = 1.0
# Between two rings of one process: whoever comes meanwhile shares the next (seconds).
_GATHER_SECONDS = 0.005
# Beyond this many waiting endpoints the sweep is the better messenger.
_MAX_WAITING = 10_000

TAKE_TURN = """
    if redis.call('SET', KEYS[1], 1, 'NX', 'PX', ARGV[1]) then return 1 end
    -- A mark that would outlast its time is from before the clock was set back.
    if redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[1]) then return 0 end
    redis.call('SET', KEYS[1], 1, 'PX', ARGV[1])
    return 1
"""
"""Sets a mark for so many milliseconds, unless it is set: of all who ask meanwhile, the first has its turn."""

logger = logging.getLogger(__name__)


def ring(endpoint_ids: Iterable[UUID]) -> None:
    """Returns at once. Call it after commit."""
    ring_members({endpoint_id.hex for endpoint_id in endpoint_ids})


def ring_members(members: set[str]) -> None:
    """The same for who has the ids as they stand in the bell: in hexadecimal digits."""
    _ringer().ring(members)


def ring_now(endpoint_ids: Iterable[UUID], *, client: "redis.Redis") -> None:
    """Marks the endpoints ready and, at most twice a second, asks Celery for a pump. Raises when Redis is away."""
    members = [endpoint_id.hex for endpoint_id in endpoint_ids]
    if members:
        _tell(members, client=client)


def connect() -> "redis.Redis":
    timeout = settings.REDIS_TIMEOUT_SECONDS
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=timeout, socket_timeout=timeout)


def _tell(members: Iterable[str], *, client: "redis.Redis") -> None:
    now = int(time.time() * 1_000_000)
    with client.pipeline(transaction=False) as pipe:
        # NX keeps the place in the queue of an endpoint that waits already; the others queue up in the order given.
        # Microseconds and their exponent, since a float takes longer to write out than all the rest.
        pipe.zadd(READY, {member: f"{place}e-6" for place, member in enumerate(members, start=now)}, nx=True)
        pipe.eval(TAKE_TURN, 1, _RUNG, _COALESCE_MS)
        pipe.llen(_QUEUE)
        _, first, messages = pipe.execute()
    if first and messages < _MOST_MESSAGES:
        _send_message()


def ask_for_pump() -> None:
    """Where it is known that there is work, but not whose: a pump looks for it when it starts. Never fails."""
    try:
        _send_message()
    except Exception as error:  # Redis, kombu and sockets each raise their own; none of them matters here.
        logger.warning("bell.missed", extra={"fields": {"endpoints": 0, "error": repr(error)}})


def _send_message() -> None:
    # Where the broker knows how, it drops the message by its own clock; two machines need not agree on the time.
    current_app.send_task(PUMP, ignore_result=True, retry=False, expiration=60)


class _Ringer:
    """One daemon thread per process, started by the first ring (after any fork)."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="bell", daemon=True).start()

    def ring(self, members: set[str]) -> None:
        with self._changed:
            if len(self._waiting) < _MAX_WAITING:
                self._waiting |= members
                self._changed.notify()

    def _run(self) -> None:
        client = connect()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                members, self._waiting = self._waiting, set()
            try:
                _tell(members, client=client)
                time.sleep(_GATHER_SECONDS)
            except Exception as error:  # Redis, kombu and sockets each raise their own; none of them matters here.
                logger.warning("bell.missed", extra={"fields": {"endpoints": len(members), "error": repr(error)}})
                time.sleep(_PAUSE_SECONDS)


@lru_cache(maxsize=1)
def _ringer() -> _Ringer:
    return _Ringer()
