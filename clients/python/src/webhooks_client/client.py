"""`Client` and `AsyncClient`: the same calls, sent by httpx in a blocking and in an asynchronous way."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from webhooks_client import calls
from webhooks_client.batches import Batches, Result
from webhooks_client.calls import Page
from webhooks_client.errors import Refused
from webhooks_client.protocol import Answer, Call, Done, Retries, Tries
from webhooks_client.types import FeedEvent, NewEvent

P = ParamSpec("P")
T = TypeVar("T")

# Longer than the platform works on any request (seconds).
TIMEOUT_SECONDS = 30.0
USER_AGENT = "webhooks-client-python"


def _blocking(make: Callable[P, Call[T]]) -> "Callable[Concatenate[Client, P], T]":
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(make(*args, **kwargs))

    return _named(method, make)


def _awaited(make: Callable[P, Call[T]]) -> "Callable[Concatenate[AsyncClient, P], Awaitable[T]]":
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(make(*args, **kwargs))

    return _named(method, make)


def _blocking_pages(make: Callable[P, Call[Page[T]]]) -> "Callable[Concatenate[Client, P], Iterator[T]]":
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        while True:
            page = self.send(make(*args, **kwargs))
            yield from page.items
            if page.cursor is None:
                return
            kwargs["cursor"] = page.cursor

    return _named(method, make)


def _awaited_pages(make: Callable[P, Call[Page[T]]]) -> "Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]":
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        while True:
            page = await self.send(make(*args, **kwargs))
            for item in page.items:
                yield item
            if page.cursor is None:
                return
            kwargs["cursor"] = page.cursor

    return _named(method, make)


F = TypeVar("F", bound=Callable[..., Any])


def _named(method: F, make: Callable[..., Any]) -> F:
    """With the name and the words of the call it makes; `inspect` and editors then show its parameters."""
    method.__name__, method.__doc__, method.__annotations__ = make.__name__, make.__doc__, make.__annotations__
    method.__qualname__ = make.__name__
    return method


class Client:
    """Blocking; threads may share it. Use it in a `with`, or `close` it."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        retries: Retries | None = None,
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._retries = retries or Retries()
        self._timeout = timeout
        self._sleep = sleep
        self._clock = clock
        self._chance = chance
        self._http = httpx.Client(
            base_url=_api(base_url), headers=_headers(key), timeout=timeout, transport=transport, follow_redirects=False
        )

    def send(self, call: Call[T]) -> T:
        """One call, tried again while that makes sense."""
        tries = Tries(call, self._retries, clock=self._clock, chance=self._chance)
        while True:
            try:
                response = self._http.request(**_request(call, self._timeout))
            except httpx.RequestError as error:
                verdict: Any = tries.unanswered(error)
            else:
                verdict = tries.answered(Answer(response.status_code, response.headers, response.content))
            if isinstance(verdict, Done):
                return verdict.read(call)
            self._sleep(verdict.seconds)

    def emit_many(self, items: Iterable[NewEvent | Mapping[str, Any]], **limits: int) -> Iterator[Result]:
        """One result for each event, in order. An error means that this batch and what follows was not acknowledged:
        send those again, with the same ids, and what had arrived is a duplicate."""
        batches = Batches(items, **limits)
        while (call := batches.next_call()) is not None:
            try:
                answer = [] if batches.is_empty() else self.send(call)
            except Refused as error:
                yield from batches.refused(error)
            else:
                yield from batches.answered(answer)

    def feed(self, consumer: str, *, cursor: str | None = None, undelivered: bool | None = None) -> Iterator[FeedEvent]:
        """Every event of a consumer from a position to the present. `feed_page` gives positions to store."""
        more = True
        while more:
            page = self.send(calls.feed_page(consumer, cursor=cursor, undelivered=undelivered))
            yield from page.events
            cursor, more = page.cursor, page.more

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    emit = _blocking(calls.emit)
    event = _blocking(calls.event)
    events = _blocking_pages(calls.event_page)
    feed_page = _blocking(calls.feed_page)
    consumers = _blocking_pages(calls.consumer_page)
    consumer = _blocking(calls.consumer)
    create_consumer = _blocking(calls.create_consumer)
    update_consumer = _blocking(calls.update_consumer)
    delete_consumer = _blocking(calls.delete_consumer)
    endpoints = _blocking_pages(calls.endpoint_page)
    endpoint = _blocking(calls.endpoint)
    create_endpoint = _blocking(calls.create_endpoint)
    update_endpoint = _blocking(calls.update_endpoint)
    delete_endpoint = _blocking(calls.delete_endpoint)
    rotate_secret = _blocking(calls.rotate_secret)
    pause_endpoint = _blocking(calls.pause_endpoint)
    resume_endpoint = _blocking(calls.resume_endpoint)
    test_endpoint = _blocking(calls.test_endpoint)
    check_up = _blocking(calls.check_up)
    event_types = _blocking_pages(calls.event_type_page)
    event_type = _blocking(calls.event_type)
    create_event_type = _blocking(calls.create_event_type)
    update_event_type = _blocking(calls.update_event_type)
    delete_event_type = _blocking(calls.delete_event_type)
    deliveries = _blocking_pages(calls.delivery_page)
    delivery = _blocking(calls.delivery)
    replay_delivery = _blocking(calls.replay_delivery)
    start_replay = _blocking(calls.start_replay)
    preview_replay = _blocking(calls.preview_replay)
    replays = _blocking_pages(calls.replay_page)
    replay = _blocking(calls.replay)
    cancel_replay = _blocking(calls.cancel_replay)


class AsyncClient:
    """For asyncio. Use it in an `async with`, or `aclose` it."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        retries: Retries | None = None,
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._retries = retries or Retries()
        self._timeout = timeout
        self._sleep = sleep
        self._clock = clock
        self._chance = chance
        self._http = httpx.AsyncClient(
            base_url=_api(base_url), headers=_headers(key), timeout=timeout, transport=transport, follow_redirects=False
        )

    async def send(self, call: Call[T]) -> T:
        """One call, tried again while that makes sense."""
        tries = Tries(call, self._retries, clock=self._clock, chance=self._chance)
        while True:
            try:
                response = await self._http.request(**_request(call, self._timeout))
            except httpx.RequestError as error:
                verdict: Any = tries.unanswered(error)
            else:
                verdict = tries.answered(Answer(response.status_code, response.headers, response.content))
            if isinstance(verdict, Done):
                return verdict.read(call)
            await self._sleep(verdict.seconds)

    async def emit_many(self, items: Iterable[NewEvent | Mapping[str, Any]], **limits: int) -> AsyncIterator[Result]:
        """As `Client.emit_many`."""
        batches = Batches(items, **limits)
        while (call := batches.next_call()) is not None:
            try:
                answer = [] if batches.is_empty() else await self.send(call)
            except Refused as error:
                results = batches.refused(error)
            else:
                results = batches.answered(answer)
            for result in results:
                yield result

    async def feed(
        self, consumer: str, *, cursor: str | None = None, undelivered: bool | None = None
    ) -> AsyncIterator[FeedEvent]:
        """As `Client.feed`."""
        more = True
        while more:
            page = await self.send(calls.feed_page(consumer, cursor=cursor, undelivered=undelivered))
            for event in page.events:
                yield event
            cursor, more = page.cursor, page.more

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    emit = _awaited(calls.emit)
    event = _awaited(calls.event)
    events = _awaited_pages(calls.event_page)
    feed_page = _awaited(calls.feed_page)
    consumers = _awaited_pages(calls.consumer_page)
    consumer = _awaited(calls.consumer)
    create_consumer = _awaited(calls.create_consumer)
    update_consumer = _awaited(calls.update_consumer)
    delete_consumer = _awaited(calls.delete_consumer)
    endpoints = _awaited_pages(calls.endpoint_page)
    endpoint = _awaited(calls.endpoint)
    create_endpoint = _awaited(calls.create_endpoint)
    update_endpoint = _awaited(calls.update_endpoint)
    delete_endpoint = _awaited(calls.delete_endpoint)
    rotate_secret = _awaited(calls.rotate_secret)
    pause_endpoint = _awaited(calls.pause_endpoint)
    resume_endpoint = _awaited(calls.resume_endpoint)
    test_endpoint = _awaited(calls.test_endpoint)
    check_up = _awaited(calls.check_up)
    event_types = _awaited_pages(calls.event_type_page)
    event_type = _awaited(calls.event_type)
    create_event_type = _awaited(calls.create_event_type)
    update_event_type = _awaited(calls.update_event_type)
    delete_event_type = _awaited(calls.delete_event_type)
    deliveries = _awaited_pages(calls.delivery_page)
    delivery = _awaited(calls.delivery)
    replay_delivery = _awaited(calls.replay_delivery)
    start_replay = _awaited(calls.start_replay)
    preview_replay = _awaited(calls.preview_replay)
    replays = _awaited_pages(calls.replay_page)
    replay = _awaited(calls.replay)
    cancel_replay = _awaited(calls.cancel_replay)


def _api(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base}/" if base.endswith("/api/v1") else f"{base}/api/v1/"


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "User-Agent": USER_AGENT, "Accept": "application/json"}


def _request(call: Call[Any], timeout: float) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "content": call.body,
        "params": call.params or None,
        "headers": dict(call.headers),
        "timeout": timeout + call.wait_seconds,
    }
