"""The Django store and the Django view."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from webhooks_client.receive import EndedTransaction, Event, Gap, SequenceGuard, sign


@pytest.fixture
def store() -> Any:
    from webhooks_client.django.receipts import DjangoStore

    return DjangoStore()


def effects() -> int:
    from django.contrib.auth.models import Group

    return Group.objects.count()


def work(_: Any = None) -> None:
    """Any row of the project's own will do as an effect."""
    from django.contrib.auth.models import Group

    Group.objects.create(name=str(time.perf_counter_ns()))


def test_the_second_time_is_a_duplicate(store: Any) -> None:
    assert [store.run_once("evt_1", work), store.run_once("evt_1", work)] == ["new", "duplicate"]
    assert (effects(), store.seen("evt_1"), store.seen("evt_2")) == (1, True, False)


def test_work_that_fails_leaves_neither_key_nor_effect(store: Any) -> None:
    def fails(_: Any) -> None:
        work()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.run_once("evt_1", fails)
    assert (effects(), store.seen("evt_1")) == (0, False)


def test_work_that_swallows_a_database_error_has_failed_and_comes_again(store: Any) -> None:
    from django.contrib.auth.models import Group
    from django.db import IntegrityError

    def swallows(_: Any) -> None:
        work()
        with suppress(IntegrityError):
            Group(pk=Group.objects.get().pk, name="taken").save(force_insert=True)

    with pytest.raises(EndedTransaction):
        store.run_once("evt_1", swallows)
    assert (effects(), store.seen("evt_1")) == (0, False)
    assert store.run_once("evt_1", work) == "new"


def test_work_may_take_back_what_it_put_into_a_block_of_its_own(store: Any) -> None:
    from django.db import transaction

    def takes_back(_: Any) -> None:
        work()
        with suppress(RuntimeError), transaction.atomic():
            work()
            raise RuntimeError

    assert store.run_once("evt_1", takes_back) == "new"
    assert (effects(), store.seen("evt_1")) == (1, True)


def test_of_fifty_at_the_same_moment_one_has_an_effect(store: Any) -> None:
    from django.db import connection

    def run(_: int) -> str:
        try:
            return str(store.run_once("evt_1", work))
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as threads:
        outcomes = list(threads.map(run, range(50)))
    assert (outcomes.count("new"), outcomes.count("duplicate"), effects()) == (1, 49, 1)


def test_keys_are_forgotten_after_their_time(store: Any) -> None:
    from webhooks_client.django.receipts.models import Receipt

    store.run_once("evt_1", work)
    store.run_once("evt_2", work)
    Receipt.objects.filter(key="evt_1").update(received_at=datetime.now(UTC) - timedelta(days=31))
    assert store.forget() == 1
    assert (store.seen("evt_1"), store.seen("evt_2")) == (False, True)


def test_the_sequence_is_part_of_the_transaction(store: Any) -> None:
    guard = SequenceGuard(store)

    def apply(number: int) -> bool:
        event = Event(id=f"evt_{number}", type="a", data={}, ordering_key="k", sequence=number)
        admitted = []
        store.run_once(event.id, lambda transaction: admitted.append(guard.admits(transaction, event)))
        return admitted == [True]

    assert apply(1)
    with pytest.raises(Gap):
        apply(3)
    assert [apply(2), apply(3)] == [True, True]
    assert not apply(0)


def test_the_view_verifies_dedupes_and_wants_a_post() -> None:
    from django.test import Client

    from tests import django_urls

    django_urls.received.clear()
    body = json.dumps({"id": "evt_1", "type": "a", "data": {}}).encode()
    headers = sign(body, secret="whsec_c2VjcmV0", event_id="evt_1", timestamp=int(time.time()))
    # As a browser would be, were it not exempt.
    client = Client(enforce_csrf_checks=True)
    answers = [
        client.post("/webhooks/", data=body, content_type="application/json", headers=headers).json() for _ in range(2)
    ]
    assert answers == [{"status": "new"}, {"status": "duplicate"}]
    assert client.post("/webhooks/", data=body, content_type="application/json").status_code == 401
    assert client.get("/webhooks/").status_code == 405
    assert django_urls.received == ["evt_1"]
