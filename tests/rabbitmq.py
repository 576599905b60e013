"""A RabbitMQ of a test's own, from the distribution's package: loopback alone, a folder and a name server of its own.

Erlang's name server (epmd) would stay behind on a well-known port, so it runs as a child like the broker itself.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kombu

from tests.local import free_port
from webhooks_platform.local.children import Program
from webhooks_platform.local.server import RunningServer, Server, running

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
# A name that `hostname` need not resolve.
NODE = "webhooks@localhost"
CONFIGURATION = """
loopback_users = none
listeners.tcp.1 = 127.0.0.1:{port}
log.file = false
log.console = true
log.console.level = warning
"""
LOOPBACK = "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"


def is_installed() -> bool:
    return SERVER.is_file() and _epmd() is not None


@contextmanager
def running_rabbitmq(folder: Path, *, options: str = "") -> Iterator[RunningServer]:
    """Its `url` is for CELERY_BROKER_URL; `options` go to Erlang, like "-rabbit consumer_timeout 3000"."""
    names_port, port, distribution_port = free_port(), free_port(), free_port()
    configuration = folder / "rabbitmq.conf"
    configuration.write_text(CONFIGURATION.format(port=port))
    (folder / "enabled_plugins").write_text("[].\n")
    env = {
        **os.environ,
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names_port),
        "RABBITMQ_NODENAME": NODE,
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{LOOPBACK} {options}",
        "RABBITMQ_CONFIG_FILE": str(configuration),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "rabbitmq.pid"),
    }
    epmd = ["-address", "127.0.0.1", "-port", str(names_port)]
    names = _program(folder, env, "epmd", [str(_epmd()), *epmd])
    broker = _program(folder, env, "rabbitmq", [str(SERVER)], stop_seconds=30)
    url = f"amqp://guest:guest@127.0.0.1:{port}//"
    # The name server forgets a node that was killed as soon as its connection ends.
    with (
        running(Server(names, "", lambda: _listens(names_port))),
        running(Server(broker, url, lambda: _is_ready(url))) as server,
    ):
        yield server


def queue_length(url: str, queue: str) -> int:
    """Messages that wait in it, without those a worker already holds."""
    with kombu.Connection(url) as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare(queue, passive=True).message_count)


def _program(folder: Path, env: dict[str, str], name: str, command: list[str], *, stop_seconds: float = 5) -> Program:
    log = folder / f"{name}.log"
    return Program(name=name, command=command, log=log, cwd=folder, env=env, stop_seconds=stop_seconds)


def _epmd() -> str | None:
    found = [str(path) for path in Path("/usr/lib/erlang").glob("erts-*/bin/epmd")]
    return shutil.which("epmd") or next(iter(found), None)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _is_ready(url: str) -> bool:
    with kombu.Connection(url, connect_timeout=2) as connection:
        away: Any = (OSError, *connection.connection_errors)
        try:
            connection.connect()
        except away:
            return False
        return True
