"""Tests run on real servers: embedded ones in a temporary folder, or the ones that DATABASE_URL and REDIS_URL name.

A pytest plugin (`-p tests.servers`), not a conftest: pytest-django reads the settings early, and they hold addresses.

In a parallel run (`pytest -n auto`) each worker process starts a PostgreSQL and a Valkey of its own, so no test sees
the rows, locks, connections or messages of a test beside it. A run on servers that were named is serial: there is one
of each.

TEST_BROKER=rabbitmq gives Celery a RabbitMQ, TEST_POOLER=pgbouncer puts a PgBouncer in front of PostgreSQL
(`make test-rabbitmq`, `make test-pgbouncer`).
"""

import base64
import logging
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

_running = ExitStack()
# The data goes with the run, and what a killed server process wrote is still there without a flush to the disk.
_UNSAFE_AND_QUICK = {"fsync": "off", "full_page_writes": "off"}
_NAMED = {name for name in ("DATABASE_URL", "REDIS_URL") if name in os.environ}
# Tests wait more than they compute, so one worker for each core leaves the cores idle part of the time.
_MOST_WORKERS = 8
_ON_RABBITMQ = os.environ.get("TEST_BROKER") == "rabbitmq"
THROUGH_PGBOUNCER = os.environ.get("TEST_POOLER") == "pgbouncer"

# For tests that make a state of a session: through a pooler, somebody else would have it next.
needs_session = pytest.mark.skipif(THROUGH_PGBOUNCER, reason="says SET to a session, or ends one: a pooler has none")


def _set_environment() -> Path:
    """Settings for the tests, with the addresses that the servers will have; the folder the servers will be in."""
    from webhooks_platform import addresses

    os.environ["ENV_FILE"] = ""
    os.environ["SECRET_KEY"] = "only-for-tests-" + "x" * 40
    os.environ["ENCRYPTION_KEYS"] = "t1:" + base64.b64encode(b"t" * 32).decode()
    os.environ["DELIVERY_ALLOWED_NETWORKS"] = "127.0.0.0/8,::1/128"
    os.environ["LOG_LEVEL"] = "WARNING"
    folder = Path(_running.enter_context(tempfile.TemporaryDirectory(prefix="wh", ignore_cleanup_errors=True)))
    folder = folder.resolve()
    if THROUGH_PGBOUNCER:
        from tests.pgbouncer import pooled_url

        os.environ["DATABASE_TRANSACTION_POOLING"] = "true"
        os.environ.setdefault("DATABASE_URL", pooled_url(folder))
    os.environ.setdefault("DATABASE_URL", addresses.database_url(folder))
    os.environ.setdefault("REDIS_URL", addresses.redis_url(folder))
    return folder


_FOLDER = _set_environment()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many workers `-n auto` means. None when servers were named: the tests then run in this process."""
    return 0 if _NAMED else min(_MOST_WORKERS, len(os.sched_getaffinity(0)) + 1)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if _only_distributes(config):
        # A worker inherits this environment, and would take our addresses for ones that were named.
        for name in {"DATABASE_URL", "REDIS_URL"} - _NAMED:
            del os.environ[name]
    else:
        _start_servers()


def pytest_unconfigure() -> None:
    """The servers end, and so does what is logged: counts in memory are written at exit, and there is nothing left to
    write them to, nor a stream to say so."""
    logging.raiseExceptions = False
    _running.close()


def _only_distributes(config: pytest.Config) -> bool:
    """Whether this process hands tests to workers and runs none itself."""
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")


def _start_servers() -> None:
    from webhooks_platform.local.folder import claim
    from webhooks_platform.local.postgres import embedded_postgres
    from webhooks_platform.local.valkey import embedded_valkey

    if len(_NAMED) == 2:
        return
    folder = _running.enter_context(claim(_FOLDER))
    if "DATABASE_URL" not in _NAMED:
        postgres = _running.enter_context(embedded_postgres(folder, settings=_UNSAFE_AND_QUICK))
        if THROUGH_PGBOUNCER:
            from tests.pgbouncer import running_pgbouncer

            _running.enter_context(running_pgbouncer(folder, postgres_url=postgres.url))
    if "REDIS_URL" not in _NAMED:
        _running.enter_context(embedded_valkey(folder))
    if _ON_RABBITMQ:
        from tests.rabbitmq import running_rabbitmq

        # Before the settings are read: pytest-django reads them after this hook.
        os.environ["CELERY_BROKER_URL"] = _running.enter_context(running_rabbitmq(_FOLDER)).url
