"""The embedded servers: real processes in a temporary folder, stopped, killed, orphaned and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from tests.local import is_running, short_dir, wait_until
from webhooks_platform.local import accounts, postgres, valkey
from webhooks_platform.local.children import Child, Program
from webhooks_platform.local.environment import BASE_DIR
from webhooks_platform.local.folder import DataFolder, SetupError, claim
from webhooks_platform.local.postgres import embedded_postgres
from webhooks_platform.local.valkey import embedded_valkey

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")


@pytest.fixture(scope="module")
def path() -> Iterator[Path]:
    """One data folder for all of them, as in a clone: making it anew takes longer than the tests."""
    with short_dir() as path:
        yield path / "data"


@pytest.fixture
def folder(path: Path) -> Iterator[DataFolder]:
    with claim(path) as folder:
        yield folder


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def write_pid(pid_file: Path, pid: int) -> None:
    lines = pid_file.read_text().split("\n")
    pid_file.write_text("\n".join([str(pid), *lines[1:]]))


def test_postgres_has_the_project_s_database_in_utf8_with_checksums_and_fsync(folder: DataFolder) -> None:
    with embedded_postgres(folder) as server:
        assert ask(server.url, "SELECT current_database() || ' ' || current_user") == "webhooks webhooks"
        assert ask(server.url, "SHOW server_encoding") == "UTF8"
        assert ask(server.url, "SHOW data_checksums") == "on"
        assert ask(server.url, "SHOW fsync") == "on"
        assert ask(server.url, "SHOW listen_addresses") == ""


def test_only_we_can_enter_the_folder_of_the_sockets(folder: DataFolder) -> None:
    with embedded_postgres(folder), embedded_valkey(folder):
        assert folder.sockets.stat().st_mode & 0o777 == 0o700


def test_a_stopped_postgres_is_gone_and_its_data_is_there_at_the_next_start(folder: DataFolder) -> None:
    with embedded_postgres(folder) as server:
        ask(server.url, "CREATE TABLE written AS SELECT 42 AS answer")
        pid = server.pid
    assert not is_running(pid)

    with embedded_postgres(folder) as server:
        assert ask(server.url, "SELECT answer FROM written") == 42


def test_a_killed_postgres_comes_back_with_what_was_committed(folder: DataFolder) -> None:
    with embedded_postgres(folder) as server:
        ask(server.url, "CREATE TABLE committed AS SELECT 42 AS answer")
        killed = server.pid
        server.kill()
        server.start()
        assert server.pid != killed
        assert ask(server.url, "SELECT answer FROM committed") == 42


def test_a_killed_valkey_comes_back_empty(folder: DataFolder) -> None:
    with embedded_valkey(folder) as server, redis.Redis.from_url(server.url) as client:
        client.set("a", "b")
        server.kill()
        server.start()
        assert client.get("a") is None
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_a_stale_pid_that_now_belongs_to_a_stranger_stops_neither_the_start_nor_the_stranger(
    folder: DataFolder,
) -> None:
    # The stranger runs as the server's own user: only then does PostgreSQL take the pid file at its word.
    stranger = Child(
        Program(
            name="stranger",
            command=["/bin/sleep", "600"],
            log=folder.log("stranger"),
            cwd=Path("/"),
            account=accounts.server_account(folder),
        )
    )
    try:
        with embedded_postgres(folder) as server:
            server.kill()
            write_pid(folder.postgres / "postmaster.pid", stranger.pid)
            socket_lock = folder.sockets / ".s.PGSQL.5432.lock"
            write_pid(socket_lock, stranger.pid)
            server.start()
            assert ask(server.url, "SELECT 1") == 1
        assert stranger.exit_code() is None
    finally:
        stranger.kill_now()
        stranger.wait(10)


def test_a_postgres_of_another_folder_is_left_alone(folder: DataFolder) -> None:
    with short_dir() as other_path, claim(other_path) as other, embedded_postgres(other) as neighbour:
        with embedded_postgres(folder) as server:
            server.kill()
            write_pid(folder.postgres / "postmaster.pid", neighbour.pid)
            server.start()
        assert ask(neighbour.url, "SELECT 1") == 1


@pytest.mark.parametrize("module", [postgres, valkey])
def test_a_server_that_an_earlier_run_left_behind_is_stopped_first(folder: DataFolder, module: object) -> None:
    prepare = {postgres: postgres.prepare, valkey: valkey.prepare}[module]  # type: ignore[index]
    server = prepare(folder, say=lambda line: None)
    orphan = Child(server.program)
    wait_until(server.is_ready)

    newer = Child(server.program)

    assert orphan.wait(5)
    wait_until(server.is_ready)
    newer.stop()
    assert newer.wait(20)


def test_a_second_start_is_refused_by_name_and_harms_nothing(path: Path) -> None:
    with claim(path, url="http://127.0.0.1:8000") as folder, embedded_postgres(folder) as server:
        refusal = rf"Already running at http://127.0.0.1:8000 \(pid {os.getpid()}\)"
        with pytest.raises(SetupError, match=refusal), claim(path):
            pytest.fail("claimed twice")
        assert ask(server.url, "SELECT 1") == 1


KILLED_HOLDER = """
import os, signal, sys
from pathlib import Path
from webhooks_platform.local.folder import claim

with claim(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_is_free_again_after_its_holder_and_knows_whether_that_one_was_killed(path: Path) -> None:
    with claim(path):
        pass
    with claim(path) as folder:
        assert not folder.was_interrupted
    killed = subprocess.run([sys.executable, "-c", KILLED_HOLDER, str(path)], cwd=BASE_DIR, check=False)
    assert killed.returncode == -signal.SIGKILL
    with claim(path) as folder:
        assert folder.was_interrupted


HOLDER = """
import sys
from pathlib import Path
from webhooks_platform.local.folder import claim
from webhooks_platform.local.postgres import embedded_postgres
from webhooks_platform.local.valkey import embedded_valkey

with claim(Path(sys.argv[1])) as folder, embedded_postgres(folder) as one, embedded_valkey(folder) as two:
    print(one.pid, two.pid, flush=True)
    sys.stdin.read()
"""


@linux_only
def test_the_servers_end_with_a_parent_that_is_killed_and_the_next_start_works(path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, cwd=BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert all(is_running(pid) for pid in pids)
        parent.kill()
    wait_until(lambda: not any(is_running(pid) for pid in pids))

    with claim(path) as folder, embedded_postgres(folder) as server:
        assert ask(server.url, "SELECT 1") == 1
