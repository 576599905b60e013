"""A PgBouncer in transaction mode in front of a test's PostgreSQL, from the distribution's package, on a unix socket.

It is set up as docs/deploying.md says: few connections to the server, shared by transactions, so that whatever a
session should have kept shows soon in somebody else's.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

from webhooks_platform.local import accounts
from webhooks_platform.local.children import Program
from webhooks_platform.local.folder import DataFolder
from webhooks_platform.local.server import RunningServer, Server, running

PORT = 6432
CONFIGURATION = """
[databases]
* = host={postgres} port=5432 user=webhooks

[pgbouncer]
pool_mode = transaction
unix_socket_dir = {folder}
unix_socket_mode = 0700
listen_addr =
listen_port = {port}
auth_type = any
max_client_conn = 1000
default_pool_size = 12
server_idle_timeout = 5
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
"""


def program() -> str | None:
    return shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")


def pooled_url(folder: Path, *, database: str = "webhooks") -> str:
    """Where the one for a data folder will listen."""
    return f"postgres://webhooks@/{database}?host={quote(str(_sockets(folder)))}&port={PORT}"


@contextmanager
def running_pgbouncer(folder: DataFolder, *, postgres_url: str) -> Iterator[RunningServer]:
    """In front of the PostgreSQL of this data folder."""
    found = program()
    assert found, "pgbouncer is not installed"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        # What startup parameters say to a server of one's own; a pooler passes none of them on.
        connection.execute("ALTER ROLE webhooks SET lock_timeout = '2s'")
    sockets = _sockets(folder.path)
    account = accounts.server_account(folder)
    accounts.private_dir(sockets, account)
    accounts.open_way(sockets, account, lambda line: None)
    configuration = sockets / "pgbouncer.ini"
    configuration.write_text(CONFIGURATION.format(postgres=folder.sockets, folder=sockets, port=PORT))
    configuration.chmod(0o644)
    process = Program(
        name="pgbouncer", command=[found, str(configuration)], log=folder.log("pgbouncer"), cwd=sockets, account=account
    )
    url = pooled_url(folder.path)
    with running(Server(process, url, lambda: _is_ready(url))) as server:
        yield server


def _sockets(folder: Path) -> Path:
    return folder / "pooler"


def _is_ready(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
