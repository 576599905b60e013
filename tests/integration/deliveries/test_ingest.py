"""deliveries/ingest.py through the API: accept once, store exactly, fan out."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from deliveries.accepting import insert
from deliveries.models import Delivery, Event
from subscriptions import endpoints, ids
from subscriptions.models import Consumer
from tests.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}}


def test_an_event_is_stored_with_one_delivery_per_endpoint_that_wants_it(producer: Api, acme: Consumer) -> None:
    for patterns in (["invoice.paid"], ["invoice.*"], ["*"], ["order.*"], ["invoice"]):
        endpoints.create(consumer=acme, url="http://127.0.0.1:9/", event_types=patterns)

    answer = producer.post("events/", EVENT)

    assert answer.status_code == 202, answer.content
    assert answer.json()["delivery_count"] == 3
    assert answer.json()["consumer"] == "acme"
    assert Event.objects.count() == 1
    assert Delivery.objects.count() == 3
    assert producer.get(f"events/{answer.json()['id']}/").json() == answer.json()


@pytest.mark.parametrize("extra", [{}, {"ordering_key": "a"}])
def test_the_deliveries_of_a_batch_have_ids_of_their_own_that_say_when(
    extra: dict[str, str], producer: Api, acme: Consumer
) -> None:
    for _ in range(3):
        endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    before = ids.first_at(datetime.now(UTC))

    for _ in range(2):
        assert producer.post("events/batch/", {"events": [EVENT | extra] * 20}).status_code == 202

    made = sorted(Delivery.objects.values_list("id", flat=True))
    assert len(set(made)) == 120
    assert {each.version for each in made} == {7}
    assert before <= made[0] <= made[-1] < ids.first_at(datetime.now(UTC) + timedelta(seconds=1))


def test_the_last_id_there_is_leaves_room_for_a_batch() -> None:
    given = insert.counting_on(UUID(int=2**128 - 1))
    assert [len(given["id_start"]), len(f"{given['id_end'] + 1_000_000:012x}")] == [20, 12]
