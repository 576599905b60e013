"""A small stand-in for the platform behind httpx: answers from a list, and keeps what it was sent."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from webhooks_client import AsyncClient, Client, Retries

Answerer = Callable[[httpx.Request], httpx.Response]


@dataclass
class Platform:
    """Each answer serves one request, the last one all that follow. An exception is raised in place of an answer."""

    answers: list[httpx.Response | Exception | Answerer]
    requests: list[httpx.Request] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return answer(request)
        # A response is used up when it is read.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def client(self, **options: Any) -> Client:
        """Waits without waiting, and the longest that chance allows."""
        options = {"retries": Retries(), **options}
        transport = httpx.MockTransport(self.handle)
        return Client(
            "http://platform", "key", transport=transport, sleep=self.slept.append, chance=lambda: 1.0, **options
        )

    def async_client(self, **options: Any) -> AsyncClient:
        transport = httpx.MockTransport(self.handle)
        return AsyncClient(
            "http://platform", "key", transport=transport, sleep=self._sleep, chance=lambda: 1.0, **options
        )

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    def keys(self) -> list[str]:
        return [request.headers["idempotency-key"] for request in self.requests]


def problem(status: int, code: str, detail: str = "So it is.", **headers: str) -> httpx.Response:
    document = {"type": f"urn:x:{code}", "title": "T", "status": status, "code": code, "detail": detail}
    return httpx.Response(status, json=document, headers={name.replace("_", "-"): v for name, v in headers.items()})


def accept_batch(request: httpx.Request) -> httpx.Response:
    """As the platform answers a batch: one result for each event, in order."""
    events = json.loads(request.content)["events"]
    results = [{"status": "accepted", "event": {"id": event.get("id", "evt")}} for event in events]
    return httpx.Response(202, json={"results": results})
