"""A producer that sends as fast as it is answered, or at a steady rate, and keeps the times."""

import asyncio
import json
import sys
import time
from typing import Any

import aiohttp
import uvloop


async def as_fast_as_answered(url: str, key: str, body: bytes, *, count: int, at_once: int) -> dict[str, Any]:
    left, times = count, []
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def one_after_another() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                begun = time.perf_counter()
                async with session.post(url, data=body) as answer:
                    await answer.read()
                    assert answer.status in (200, 202), await answer.text()
                times.append(time.perf_counter() - begun)

        begun = time.perf_counter()
        await asyncio.gather(*(one_after_another() for _ in range(at_once)))
        seconds = time.perf_counter() - begun
    times.sort()
    return {
        "rate": count / seconds,
        "p50_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[int(len(times) * 0.99)],
    }


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    result = uvloop.run(
        as_fast_as_answered(
            asked["url"], asked["key"], asked["body"].encode(), count=asked["count"], at_once=asked["at_once"]
        )
    )
    print(json.dumps(result))
