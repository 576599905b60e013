"""Part of send: refuses addresses that we do not deliver to, when a name is looked up and when a socket is opened."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

from subscriptions.guards.urls import Policy, RefusedTarget, check_addresses, name_to_look_up

logger = logging.getLogger(__name__)

Lookup = Callable[[str, int], Awaitable[list[str]]]
# What aiohttp hands to a socket factory: family, type, protocol, canonical name, address.
_AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[str | int | bytes, ...]]

# A look-up that finds no address we deliver to takes at least this long (seconds).
_FAILED_LOOKUP_SECONDS = 0.5


class DialGuard(AbstractResolver):
    """The connector's resolver and socket factory. Judges all addresses of a name, then the one that is dialled."""

    def __init__(self, scheme: str, policy: Policy, lookup: Lookup) -> None:
        self._check = partial(check_addresses, scheme=scheme, policy=policy)
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        started = time.monotonic()
        try:
            addresses = await self._lookup(host, port)
            self._check(addresses, port=port)
        except (socket.gaierror, RefusedTarget) as error:
            if isinstance(error, RefusedTarget) and error.code != "address_not_allowed":
                raise
            if isinstance(error, socket.gaierror):
                _raise_if_out_of_files()
            # The same error after the same time, or a consumer could find out which names exist in our network.
            logger.info(
                "dial.no_address", extra={"fields": {"host": host, "refused": isinstance(error, RefusedTarget)}}
            )
            await asyncio.sleep(max(0, started + _FAILED_LOOKUP_SECONDS - time.monotonic()))
            raise _no_address() from None
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
            for address in addresses
        ]

    def open_socket(self, info: _AddressInfo) -> socket.socket:
        family, kind, protocol, _, (address, port, *_) = info
        try:
            self._check([str(address)], port=int(port))
        except RefusedTarget:
            # aiohttp races several addresses and lets only operating system errors out of the race.
            raise _no_address() from None
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        pass


def _raise_if_out_of_files() -> None:
    """A look-up that could not open its socket fails like one whose servers did not answer."""
    with open(os.devnull, "rb"):  # noqa: PTH123  (nothing shorter asks for a file)
        pass


def _no_address() -> socket.gaierror:
    return socket.gaierror(socket.EAI_NONAME, "no address that we deliver to")


async def system_lookup(host: str, port: int) -> list[str]:
    look = partial(socket.getaddrinfo, name_to_look_up(host), port, type=socket.SOCK_STREAM)
    infos = await asyncio.get_running_loop().run_in_executor(_LOOKUPS, look)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


# A look-up of a name whose servers are dead blocks a thread for many seconds. The loop's own pool has a handful of
# threads, so a few dead names would hold up every other receiver's.
_LOOKUPS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="lookup")
