"""Tests run on real servers: embedded ones in a temporary folder, or those that DATABASE_URL and REDIS_URL name.

A pytest plugin (`-p tests.servers`), not a conftest: the servers must run before pytest-django reads the settings.
"""

import base64
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

_servers = ExitStack()
# The data goes with the run, and what a killed server process wrote is still there without a flush to the disk.
_UNSAFE_AND_QUICK = {"fsync": "off", "full_page_writes": "off"}


def _prepare() -> None:
    os.environ["ENV_FILE"] = ""
    os.environ["SECRET_KEY"] = "only-for-tests-" + "x" * 40
    os.environ["ENCRYPTION_KEYS"] = "t1:" + base64.b64encode(b"t" * 32).decode()
    os.environ["DELIVERY_ALLOWED_NETWORKS"] = "127.0.0.0/8,::1/128"
    os.environ["LOG_LEVEL"] = "WARNING"
    if "DATABASE_URL" in os.environ and "REDIS_URL" in os.environ:
        return
    from webhooks_platform.local.folder import claim
    from webhooks_platform.local.postgres import embedded_postgres
    from webhooks_platform.local.valkey import embedded_valkey

    data_dir = _servers.enter_context(tempfile.TemporaryDirectory(prefix="wh", ignore_cleanup_errors=True))
    folder = _servers.enter_context(claim(Path(data_dir)))
    if "DATABASE_URL" not in os.environ:
        os.environ["DATABASE_URL"] = _servers.enter_context(embedded_postgres(folder, settings=_UNSAFE_AND_QUICK)).url
    if "REDIS_URL" not in os.environ:
        os.environ["REDIS_URL"] = _servers.enter_context(embedded_valkey(folder)).url


_prepare()


def pytest_unconfigure() -> None:
    _servers.close()
