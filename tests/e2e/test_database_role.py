"""The role of SECURITY.md that owns nothing is enough for every process but `migrate`."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from django.conf import settings

from deliveries.models import Delivery
from subscriptions import endpoints, keys
from subscriptions.models import Consumer, Role
from tests.local import wait_until
from tests.receiver import Receiver
from tests.stack import StartStack, orm_database_url

[STATEMENTS] = re.findall(r"```sql\n(.*?)```", (Path(settings.BASE_DIR) / "SECURITY.md").read_text(), re.DOTALL)


@pytest.fixture
def restricted_url(transactional_db: None) -> Iterator[str]:
    """The test's database, as that role sees it."""
    url = urlsplit(orm_database_url())
    owner = url.username or "webhooks"
    with psycopg.connect(orm_database_url(), autocommit=True) as connection:
        connection.execute(STATEMENTS.replace("FOR ROLE webhooks ", f"FOR ROLE {owner} ").encode())
        yield url._replace(netloc=url.netloc.replace(f"{owner}@", "webhooks_app@")).geturl()
        connection.execute("DROP OWNED BY webhooks_app; DROP ROLE webhooks_app")


def test_an_event_is_accepted_and_delivered_by_a_role_that_owns_nothing(
    restricted_url: str, start_stack: StartStack, acme: Consumer, receiver: Receiver
) -> None:
    endpoints.create(consumer=acme, url=receiver.url)
    stack = start_stack("web", "deliveries1", "background", "beat", DATABASE_URL=restricted_url)
    headers = {"Authorization": f"Bearer {keys.issue(role=Role.PRODUCER)[1]}"}
    event = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    assert httpx.post(f"{stack.url}/api/v1/events/", json=event, headers=headers).status_code == 202
    wait_until(lambda: Delivery.objects.filter(state="delivered").count() == 1, seconds=60)
