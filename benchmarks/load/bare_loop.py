"""The bare loop: sign and POST with aiohttp on uvloop, and nothing else. What a sender without promises could do.

With the same settings of the garbage collector as our worker, and as warm when its clock starts.
"""

import asyncio
import gc
import hmac
import json
import sys
import time
from dataclasses import dataclass

import aiohttp
import uvloop

from benchmarks.load.subprocesses import ask
from benchmarks.stand import Stand

SECRET = b"whsec_" + b"x" * 44
# Requests at once in each process. More or fewer made it no faster.
AT_ONCE = 200
WARM_UP = 400


@dataclass(frozen=True, slots=True)
class Bare:
    rate: float
    cpu_ms: float


def bare(bench: Stand, *, processes: int, count: int, size: int) -> Bare:
    """So many requests in all, by so many processes, to the same receiver as the system's."""
    each = count // processes
    asked = {"url": f"{bench.receiver_url}/bare", "count": each, "size": size}
    results = ask("benchmarks.load.bare_loop", *[asked] * processes)
    seconds = max(result["seconds"] for result in results)
    cpu = sum(result["cpu"] for result in results)
    return Bare(rate=each * processes / seconds, cpu_ms=1000 * cpu / (each * processes))


def body(size: int) -> bytes:
    data = {"id": "evt_" + "0" * 26, "type": "bench.event", "data": {"filler": "x" * max(0, size - 90)}}
    return json.dumps(data).encode()


async def run(*, url: str, count: int, size: int) -> dict[str, float]:
    payload, left = body(size), 0
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def one_after_another() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                timestamp = int(time.time())
                signature = hmac.digest(SECRET, b"%d.%b" % (timestamp, payload), "sha256").hex()
                headers = {"Content-Type": "application/json", "webhook-signature": f"t={timestamp},v1={signature}"}
                async with session.post(url, data=payload, headers=headers, allow_redirects=False) as answer:
                    await answer.read()
                    if answer.status != 200:
                        raise SystemExit(f"The receiver answered {answer.status}.")

        async def send(number: int) -> None:
            nonlocal left
            left = number
            await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))

        await send(WARM_UP)
        started, cpu = time.perf_counter(), time.process_time()
        await send(count)
        return {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    print(json.dumps(uvloop.run(run(**json.loads(sys.stdin.read())))))
