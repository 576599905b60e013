"""Tests and check-ups go by the database's clock, whatever this machine's says."""

import time

import orjson
import pytest
from django.db import connection

from deliveries.endpoint_tests import check_up, test_event
from subscriptions import endpoints
from subscriptions.models import Consumer
from tests.receiver import Received, Receiver
from tests.walk import new_endpoint

pytestmark = pytest.mark.django_db

AN_HOUR_AHEAD = """
    CREATE SCHEMA ahead;
    CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 hour''';
    SET LOCAL search_path = ahead, pg_catalog, public
"""


@pytest.fixture(autouse=True)
def database_an_hour_ahead(db: None) -> None:
    """Until the test is rolled back, the database's clock is an hour ahead of this machine's."""
    with connection.cursor() as cursor:
        cursor.execute(AN_HOUR_AHEAD)


def signed_ahead(received: Received) -> float:
    """How far ahead of this machine's clock a request says it was signed (seconds)."""
    return int(received.headers["webhook-timestamp"]) - time.time()


def test_a_test_is_made_and_signed_at_the_databases_time(acme: Consumer, receiver: Receiver) -> None:
    """Regression: receivers refused tests from a machine whose clock was off by more than they allow."""
    test_event.run(new_endpoint(acme, url=receiver.url))

    [received] = receiver.received
    assert signed_ahead(received) == pytest.approx(3600, abs=120)
    said = orjson.loads(received.body)["created_at"]
    assert said > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3000))


@pytest.mark.parametrize(("overlap_seconds", "signatures"), [(1800, 1), (7200, 2)])
def test_the_previous_secret_signs_a_test_until_it_is_over_by_the_databases_clock(
    acme: Consumer, receiver: Receiver, overlap_seconds: int, signatures: int
) -> None:
    endpoint = new_endpoint(acme, url=receiver.url)
    endpoints.rotate_secret(endpoint, overlap_seconds=overlap_seconds)
    endpoint.refresh_from_db()

    test_event.run(endpoint)

    assert receiver.received[0].headers["webhook-signature"].count("v1=") == signatures


def test_a_check_up_is_signed_and_dated_at_the_databases_time(acme: Consumer, receiver: Receiver) -> None:
    report = check_up.run(new_endpoint(acme, url=receiver.url))

    genuine = receiver.received[0]
    assert signed_ahead(genuine) == pytest.approx(3600, abs=120)
    assert report["checked_at"] > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3000))
