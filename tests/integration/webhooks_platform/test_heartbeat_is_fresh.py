"""The health check of workers: whether one of that name on this machine has said lately that it is alive."""

import os
import socket
import subprocess
import sys

import psycopg
import pytest

from deliveries.pump import database
from deliveries.upkeep import heartbeat
from tests.stack import orm_database_url
from webhooks_platform.heartbeat_is_fresh import is_fresh
from webhooks_platform.local.environment import BASE_DIR

pytestmark = pytest.mark.django_db(transaction=True)


def check(worker: str, *, database_url: str) -> tuple[int, str]:
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "webhooks_platform.heartbeat_is_fresh", worker]
    env = {**os.environ, "DATABASE_URL": database_url}
    done = subprocess.run(command, cwd=BASE_DIR, env=env, capture_output=True, text=True)
    return done.returncode, done.stderr.strip()


def test_a_worker_that_beat_lately_passes_and_another_of_the_same_machine_does_not() -> None:
    with psycopg.connect(database.conninfo(), **database.session()) as connection:
        heartbeat.beat_once(connection, name=f"deliveries@{socket.gethostname()}")

    assert check("deliveries", database_url=orm_database_url()) == (0, "")
    assert check("background", database_url=orm_database_url()) == (1, "No heartbeat within 15 seconds.")


def test_one_that_fell_silent_does_not_pass() -> None:
    with psycopg.connect(database.conninfo(), **database.session()) as connection:
        heartbeat.beat_once(connection, name="deliveries@here")
        assert is_fresh("deliveries@here")
        connection.execute("UPDATE deliveries_pulse SET at = at - interval '16 seconds'")
    assert not is_fresh("deliveries@here")


def test_a_database_that_is_away_is_said_so() -> None:
    code, said = check("deliveries", database_url="postgres://nobody@127.0.0.1:9/none")
    assert (code, said.partition(":")[0]) == (1, "The database did not answer")
