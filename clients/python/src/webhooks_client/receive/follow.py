"""Events from the feed, instead of an endpoint or beside one. No public address; a restart goes on where it stopped.

The position moves behind a page when the next page is asked for, so never before every event of the page was dealt
with. Who is killed in between gets the page again, and a receiver's store finds what it has done of it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from webhooks_client.client import Client
from webhooks_client.errors import RateLimited, Refused, Unavailable
from webhooks_client.receive.event import Event
from webhooks_client.receive.positions import Positions
from webhooks_client.receive.receiver import Receiver
from webhooks_client.receive.sequence import Gap, missing_from

logger = logging.getLogger(__name__)

WAIT_SECONDS = 25
PAGE_EVENTS = 50
# Where too many wait already, the platform answers at once: nobody asks more often than this (seconds).
_IDLE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


def follow(
    client: Client,
    consumer: str,
    *,
    positions: Positions,
    name: str | None = None,
    wait: int = WAIT_SECONDS,
    limit: int = PAGE_EVENTS,
) -> Iterator[Event]:
    """Every event of a consumer, oldest first, from where the last run stopped. With `wait=0` it ends at the present.

    An event counts as dealt with once a later one is asked for: leave the loop where one was not. `name` is the
    position's; two readers with different work have two. `event.payload["data"]` is None once its retention has ended.
    """
    for page in pages(client, consumer, positions=positions, name=name, wait=wait, limit=limit):
        yield from page


def pages(
    client: Client,
    consumer: str,
    *,
    positions: Positions,
    name: str | None = None,
    wait: int = WAIT_SECONDS,
    limit: int = PAGE_EVENTS,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[list[Event]]:
    """As `follow`, page by page; an empty one when nothing has come for `wait` seconds."""
    name = name or consumer
    while not is_stopped():
        begun = clock()
        page = client.feed_page(consumer, cursor=positions.position(name), wait=wait or None, limit=limit)
        yield [Event.of(shown) for shown in page.events]
        if page.more and page.cursor is not None:
            positions.set_position(name, page.cursor)
        elif not wait:
            return
        else:
            sleep(max(0.0, _IDLE_SECONDS - (clock() - begun)))


class FeedListener:
    """A consumer's feed into a receiver, once for each event, also where an endpoint of that receiver gets them too."""

    def __init__(
        self,
        client: Client,
        consumer: str,
        receiver: Receiver,
        *,
        positions: Positions,
        name: str | None = None,
        wait: int = WAIT_SECONDS,
        limit: int = PAGE_EVENTS,
        pause: Callable[[threading.Event, float], object] = threading.Event.wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._consumer = consumer
        self._receiver = receiver
        self._positions = positions
        self._name = name
        self._wait = wait
        self._limit = limit
        self._pause = pause
        self._clock = clock
        self._missing = missing_from(client, consumer)
        self._failures = 0

    def run(self, stop: threading.Event | None = None) -> None:
        """Until `stop` is set, which it sees between events and between pages.

        Outages and work that fails are logged and tried again, the same event first, with growing pauses. A refusal
        that will not pass (a wrong key, an unknown consumer) is raised.
        """
        stop = stop or threading.Event()
        while not stop.is_set():
            try:
                self._run(stop)
            except Refused as error:
                if not isinstance(error, Unavailable | RateLimited):
                    raise
                self._failed(stop, "The platform cannot be asked (%s)", error)
            except Exception as error:
                self._failed(stop, "The feed of %s is interrupted (%s)", self._consumer, error)

    def catch_up(self) -> int:
        """To the present, once, as from a timer; how many events. Raises what the work raises."""
        count = 0
        for page in self._pages(wait=0, stop=threading.Event()):
            for event in page:
                self._process(event)
                count += 1
        return count

    def _run(self, stop: threading.Event) -> None:
        for page in self._pages(wait=self._wait, stop=stop):
            if not page:
                self._failures = 0
            for event in page:
                while not stop.is_set() and not self._is_processed(event, stop):
                    pass
            if stop.is_set():
                # The page comes again, should this have been in the middle of it.
                return

    def _pages(self, *, wait: int, stop: threading.Event) -> Iterator[list[Event]]:
        return pages(
            self._client,
            self._consumer,
            positions=self._positions,
            name=self._name,
            wait=wait,
            limit=self._limit,
            sleep=lambda seconds: self._pause(stop, seconds),
            clock=self._clock,
            is_stopped=stop.is_set,
        )

    def _is_processed(self, event: Event, stop: threading.Event) -> bool:
        try:
            self._process(event)
        except Exception:
            logger.exception("Event %s (%s) of the feed failed.", event.id, event.type)
            self._failed(stop, "Event %s comes again", event.id)
            return False
        self._failures = 0
        return True

    def _process(self, event: Event) -> None:
        if event.payload.get("data") is None:
            logger.error("Event %s (%s) is too old: the platform holds its data no longer.", event.id, event.type)
            return
        try:
            self._receiver.process_once(event)
        except Gap as gap:
            # The feed is in the order of transactions, which may differ from that of an ordering key: what is missing
            # may stand behind this event.
            key, sequence = gap.event.ordering_key, gap.event.sequence
            for missing in self._missing(key or "", gap.applied, sequence or 0):
                self._receiver.process_once(missing)
            self._receiver.process_once(event)

    def _failed(self, stop: threading.Event, what: str, *values: object) -> None:
        self._failures += 1
        seconds = min(_LONGEST_PAUSE_SECONDS, 0.5 * 2.0 ** min(self._failures - 1, 8))
        logger.warning(f"{what}; next try in %.1f s.", *values, seconds)
        self._pause(stop, seconds)
