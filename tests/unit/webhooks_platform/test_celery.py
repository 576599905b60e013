"""webhooks_platform/celery.py: how a broker that is away is tried again."""

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
