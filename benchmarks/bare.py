"""The bare loop: sign and POST with aiohttp on uvloop, and nothing else. What a sender without promises could do."""

import asyncio
import hashlib
import hmac
import json
import sys
import time

import aiohttp
import uvloop

SECRET = b"whsec_" + b"x" * 44


def body(size: int) -> bytes:
    data = {"id": "evt_" + "0" * 26, "type": "bench.event", "data": {"filler": "x" * max(0, size - 120)}}
    return json.dumps(data).encode()


async def run(url: str, count: int, at_once: int, size: int) -> dict[str, float]:
    payload, left = body(size), count
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def one_after_another() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                timestamp = int(time.time())
                signature = hmac.new(SECRET, b"%d.%b" % (timestamp, payload), hashlib.sha256).hexdigest()
                headers = {"Content-Type": "application/json", "Webhook-Signature": f"t={timestamp},v1={signature}"}
                async with session.post(url, data=payload, headers=headers, allow_redirects=False) as answer:
                    await answer.read()

        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one_after_another() for _ in range(at_once)))
        return {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu, "count": count}


if __name__ == "__main__":
    url, count, at_once, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print(json.dumps(uvloop.run(run(url, count, at_once, size))))
