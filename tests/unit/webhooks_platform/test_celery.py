"""webhooks_platform/celery.py: how a broker that is away is tried again."""

import subprocess
import sys
import textwrap

import pytest
from kombu.exceptions import OperationalError

from tests.local import free_port
from webhooks_platform.celery import app


def test_a_broker_that_is_away_is_tried_again_at_an_even_pace() -> None:
    """Regression: each pause was two seconds longer than the last, up to half a minute after the broker was back."""
    pauses: list[float] = []

    with app.connection_for_read(f"redis://127.0.0.1:{free_port()}") as connection, pytest.raises(OperationalError):
        connection.ensure_connection(lambda error, pause: pauses.append(pause), max_retries=3)

    assert set(pauses) == {0.5}


def test_a_worker_starts_without_the_pages_and_the_api_and_waits_for_no_statement_for_ever() -> None:
    """Regression: most of a worker's start was loading the console, and its successor's deliveries waited for that."""
    start = """
        import sys
        from webhooks_platform.celery import _refuse_nonsense, app
        app.loader.init_worker()
        _refuse_nonsense()
        from subscriptions.limits.answer_deadline import deadline
        from webhooks_platform.celery import _wait_for_the_database_no_longer_than_that
        _wait_for_the_database_no_longer_than_that()
        assert deadline.left() == 300
        print([name for name in ("deliveries.console.site", "deliveries.portal.site", "rest_framework.serializers",
            "webhooks_platform.urls") if name in sys.modules], "deliveries.deliver_due" in app.tasks)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", "-c", textwrap.dedent(start)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.stdout.splitlines()[-1:] == ["[] True"], done.stderr
