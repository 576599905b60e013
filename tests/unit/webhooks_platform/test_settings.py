"""webhooks_platform/settings.py: what one variable of the environment changes, read in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
from webhooks_platform.celery import app
from django.conf import settings
connection = app.connection_for_write()
print(connection.transport_cls, connection.hostname, settings.REDIS_URL, dict(connection.transport_options))
"""


def read(**environment: str) -> str:
    ours = {"ENV_FILE": "", "SECRET_KEY": "x" * 40, "REDIS_URL": "redis://cache:6379/0"}
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=inherited | ours | environment, check=True, capture_output=True
    ).stdout.decode()


def test_celery_talks_to_redis_unless_told_otherwise() -> None:
    options = {"socket_connect_timeout": 1.0, "socket_timeout": 2.5}
    assert read() == f"redis cache redis://cache:6379/0 {options}\n"


def test_rabbitmq_is_the_broker_by_one_setting_and_the_bell_stays_on_redis() -> None:
    assert read(CELERY_BROKER_URL="amqp://us:pw@rabbit:5672//") == "amqp rabbit redis://cache:6379/0 {}\n"
