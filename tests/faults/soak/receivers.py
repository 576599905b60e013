"""The soak's receivers, in a process of their own: `python -m tests.faults.soak.receivers PORT`.

Twenty paths, `/0` to `/19`. `/0` and `/1` answer 500 and `/2` does not answer, until `POST /heal`. `GET /taken`
says how long after their emit events reached the seventeen that are well since it was last asked, and how many
different events each path has taken in all.
"""

import asyncio
import sys
import time
from collections import defaultdict

import orjson
import uvloop
from aiohttp import web

COUNT = 20
FAILING = (0, 1)
HANGING = (2,)
WELL = tuple(number for number in range(COUNT) if number not in (*FAILING, *HANGING))
_HANG_SECONDS = 60


class Receivers:
    def __init__(self) -> None:
        self._healed = asyncio.Event()
        self._lags: list[float] = []
        self._taken: dict[int, set[str]] = defaultdict(set)
        self._requests = 0
        self._again = 0

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_post("/heal", self._heal)
        application.router.add_get("/taken", self._show)
        application.router.add_post("/{number}", self._take)
        return application

    async def _take(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        body = orjson.loads(await request.read())
        self._requests += 1
        if number in WELL:
            self._lags.append(time.time() - body["data"]["at"])
        elif not self._healed.is_set():
            if number in FAILING:
                return web.Response(status=500)
            await asyncio.wait([asyncio.ensure_future(self._healed.wait())], timeout=_HANG_SECONDS)
            return web.Response(status=503)
        self._again += body["id"] in self._taken[number]
        self._taken[number].add(body["id"])
        return web.Response()

    async def _heal(self, _: web.Request) -> web.Response:
        self._healed.set()
        return web.Response()

    async def _show(self, _: web.Request) -> web.Response:
        lags, self._lags = self._lags, []
        taken = [len(self._taken[number]) for number in range(COUNT)]
        shown = {"lags": lags, "taken": taken, "requests": self._requests, "again": self._again}
        return web.Response(body=orjson.dumps(shown), content_type="application/json")


async def main(port: int) -> None:
    # A request that its sender gave up is ended here as well.
    runner = web.AppRunner(Receivers().application(), handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
