"""CONFORMANCE F: PostgreSQL is frozen (SIGSTOP) for longer than a lease, with requests in flight, and comes back."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.faults.test_servers import EVERYTHING, SHORT, all_delivered, prepare
from tests.local import wait_until
from tests.receiver import Received, Receiver, Reply
from tests.stack import OwnPostgres, StartStack, manage
from webhooks_platform.local.server import RunningServer

pytestmark = [pytest.mark.timeout(180)]


def with_children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in with_children(int(child)))]


@contextmanager
def frozen(server: RunningServer) -> Iterator[None]:
    stopped = with_children(server.pid)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_while_postgres_is_frozen_callers_hear_503_and_afterwards_nothing_counts_as_lost(
    own_postgres: OwnPostgres, own_valkey: RunningServer, receiver: Receiver, start_stack: StartStack
) -> None:
    let_go = threading.Event()

    def hold(received: Received) -> Reply:
        let_go.wait(60)
        return Reply()

    env = {"DATABASE_URL": own_postgres.url, "REDIS_URL": own_valkey.url, "DATABASE_ANSWER_SECONDS": "2"}
    key = manage("issue_key", "--role", "producer", **env)
    stack = start_stack(*EVERYTHING, **env, **SHORT)
    client = stack.client(key, seconds=60)
    prepare(client, receiver)
    receiver.answer = hold
    event = {"consumer": "acme", "type": "load.test", "data": {}}
    assert client.post("events/", json=event).status_code == 202
    receiver.wait_for(1, seconds=60)

    with frozen(own_postgres.server):
        # Two seconds for the statement, then three for the new connection: longer than the lease, which lasts three.
        answers = [client.post("events/", json=event) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [503] * 3
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    let_go.set()

    wait_until(lambda: client.post("events/", json=event).status_code == 202, seconds=60)
    with psycopg.connect(own_postgres.url) as connection:
        [count] = connection.execute("SELECT count(*) FROM deliveries_event").fetchone() or [0]
    wait_until(lambda: all_delivered(own_postgres.url, count), seconds=60)
    with psycopg.connect(own_postgres.url) as connection:
        lost = connection.execute("SELECT count(*) FROM deliveries_attempt WHERE error_kind = 'worker_lost'").fetchone()
    assert lost == (0,)
