"""deliveries/ingest.py through the API: accept once, store exactly, fan out."""

import pytest

from deliveries.models import Delivery, Event
from subscriptions import endpoints
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
