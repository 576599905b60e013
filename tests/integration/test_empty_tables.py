"""tests/empty_tables.py: nothing that a test committed is there in the next one."""

import pytest
from django.contrib.auth.models import Permission
from django.db import connection, transaction

from deliveries.models import Delivery, Event
from subscriptions.models import Consumer, Endpoint, Lane
from tests.empty_tables import EMPTY_TABLES
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)
FILLED = (Consumer, Endpoint, Lane, Event, Delivery)


def counts() -> list[int]:
    return [model.objects.count() for model in FILLED]


def empty() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(EMPTY_TABLES)


def test_rows_that_refer_to_each_other_are_all_deleted(acme: Consumer) -> None:
    new_endpoint(acme)
    accept(acme)
    assert counts() == [1, 1, 1, 1, 1]
    empty()
    assert counts() == [0, 0, 0, 0, 0]


def test_what_django_itself_wrote_stays(acme: Consumer) -> None:
    permissions = Permission.objects.count()
    empty()
    assert (permissions > 0, Permission.objects.count(), Consumer.objects.count()) == (True, permissions, 0)


def test_foreign_keys_hold_again_afterwards(acme: Consumer) -> None:
    empty()
    with connection.cursor() as cursor:
        cursor.execute("SHOW session_replication_role")
        assert cursor.fetchone() == ("origin",)
