"""CONFORMANCE F: workers of the web server are killed one after the other, and it answers on."""

import os
import signal
from pathlib import Path

import pytest

from tests.local import wait_until
from tests.stack import StartStack

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


def workers_of(pid: int) -> list[int]:
    """Those that granian started to serve, without multiprocessing's own helper."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_three_quick_deaths_of_web_workers_do_not_take_the_server_down(start_stack: StartStack) -> None:
    stack = start_stack("web")
    stack.wait_ready()
    killed: set[int] = set()
    for _ in range(3):
        wait_until(lambda: len(set(workers_of(stack.pid("web"))) - killed) == 2, seconds=60)
        victim = min(set(workers_of(stack.pid("web"))) - killed)
        os.kill(victim, signal.SIGKILL)
        killed.add(victim)

    wait_until(lambda: len(set(workers_of(stack.pid("web"))) - killed) == 2, seconds=60)
    stack.wait_ready()
