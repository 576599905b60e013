"""POST endpoints/{id}/test/ with any type of the catalogue: from its example or with data of one's own."""

import orjson
import pytest

from deliveries.endpoint_tests.models import SentTest
from subscriptions import event_types
from subscriptions.models import AuditEntry, Consumer
from tests.conftest import Api
from tests.portal import inside
from tests.receiver import Receiver
from tests.walk import new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

VERSIONS = [{"api_version": "1", "example": {"old": True}}, {"api_version": "2", "example": {"amount": 100}}]


@pytest.fixture
def target(acme: Consumer, receiver: Receiver) -> str:
    event_types.create(name="invoice.paid", versions=VERSIONS)
    return new_endpoint(acme, url=receiver.url).public_id


def test_a_test_of_a_declared_type_holds_its_newest_example(target: str, acme_api: Api, receiver: Receiver) -> None:
    answer = acme_api.post(f"endpoints/{target}/test/", {"type": "invoice.paid"})

    [received] = receiver.received
    sent, shown = orjson.loads(received.body), answer.json()
    assert (answer.status_code, shown["success"], shown["type"]) == (200, True, "invoice.paid")
    assert (sent["type"], sent["data"]) == ("invoice.paid", {"amount": 100})
    assert shown["request_body"].encode() == received.body
    assert received.headers["webhook-test"] == "true"


def test_the_data_may_be_ones_own_and_the_portal_keeps_the_test(
    target: str, acme: Consumer, acme_api: Api, receiver: Receiver
) -> None:
    acme_api.post(f"endpoints/{target}/test/", {"type": "invoice.paid", "data": {"amount": 7}})

    kept = SentTest.objects.get()
    assert orjson.loads(receiver.received[0].body)["data"] == {"amount": 7}
    assert (kept.type, bytes(kept.request_body)) == ("invoice.paid", receiver.received[0].body)
    assert kept.sent_by.startswith("key ")
    assert kept.public_id in inside(acme).get(f"/portal/endpoints/{target}/test/").content.decode()


@pytest.mark.parametrize("name", ["invoice.payed", "invoice.*", "*", "order.made"])
def test_a_type_that_the_catalogue_does_not_publish_is_refused_and_nothing_sent(
    name: str, target: str, acme_api: Api, receiver: Receiver
) -> None:
    answer = acme_api.post(f"endpoints/{target}/test/", {"type": name})

    shown = answer.json()
    assert (answer.status_code, shown["code"], shown["errors"][0]["pointer"]) == (400, "event_type_unknown", "/type")
    assert (receiver.received, SentTest.objects.count(), AuditEntry.objects.count()) == ([], 0, 0)
