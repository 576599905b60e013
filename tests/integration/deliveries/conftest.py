"""What tests of emitting share."""

import pytest

from subscriptions import endpoints, keys
from subscriptions.models import ApiKey, Consumer, Role
from tests.conftest import Api
from tests.emitting import EVENT


@pytest.fixture
def known(acme: Consumer) -> tuple[Api, ApiKey]:
    """A producer who has sent before: its key, the consumer and the event type are remembered. It sent three."""
    endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    key, secret = keys.issue(role=Role.PRODUCER)
    api = Api(secret)
    assert [api.post("events/", EVENT).status_code for _ in range(3)] == [202, 202, 202]
    return api, key
