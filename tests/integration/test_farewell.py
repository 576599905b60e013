"""webhooks_platform/farewell.py: the web server's threads come and go, and their connections with them."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.backends.signals import connection_created

from tests.local import wait_until
from webhooks_platform.farewell import close_with_their_threads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def a_web_process() -> Iterator[None]:
    """In which the collector does not come by."""
    close_with_their_threads()
    gc.disable()
    yield
    gc.enable()
    connection_created.disconnect(dispatch_uid="close_with_their_threads")


def backend() -> int:
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)


def lives(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [pid])
        return bool(cursor.fetchall() == [(1,)])


def test_a_thread_keeps_its_connection_and_takes_it_along_when_it_ends(a_web_process: None) -> None:
    with ThreadPoolExecutor(max_workers=1) as thread:
        first, second = (thread.submit(backend).result(30) for _ in range(2))
        assert (first == second, lives(first)) == (True, True)
    wait_until(lambda: not lives(first), seconds=30)


def test_a_connection_that_was_replaced_leaves_its_heir_alone(a_web_process: None) -> None:
    with ThreadPoolExecutor(max_workers=1) as thread:
        first = thread.submit(backend).result(30)
        thread.submit(lambda: connection.close()).result(30)
        second = thread.submit(backend).result(30)
        wait_until(lambda: not lives(first), seconds=30)
        assert lives(second)
    wait_until(lambda: not lives(second), seconds=30)
