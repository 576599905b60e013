"""Programs of clients/python and its examples beside the platform: the feed on a screen, an outbox with SQLAlchemy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from subscriptions import keys
from subscriptions.models import Consumer, Role
from tests.conftest import Api
from tests.local import wait_until
from tests.stack import Stack, StartStack
from webhooks_platform.local.environment import BASE_DIR

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

EXAMPLES = BASE_DIR / "examples" / "python"
# Two orders in one shop: one is committed with its event, the other is rolled back.
ORDERS = """
import sys
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from sqlalchemy_outbox import Base, emit

engine = create_engine(sys.argv[1])
Base.metadata.create_all(engine)
with Session(engine) as session:
    emit(session, consumer="acme", type="order.made", data={"total": 1}, id="committed-1")
    emit(session, consumer="acme", type="order.made", data={"total": 2}, id="committed-2")
    session.commit()
    emit(session, consumer="acme", type="order.made", data={"total": 3}, id="rolled-back")
    session.rollback()
"""


def environment(stack: Stack, role: Role, consumer: Consumer | None = None) -> dict[str, str]:
    paths = os.pathsep.join([str(BASE_DIR / "clients" / "python" / "src"), str(EXAMPLES)])
    key = keys.issue(role=role, consumer=consumer)[1]
    return {**os.environ, "PYTHONPATH": paths, "WEBHOOKS_URL": stack.url, "WEBHOOKS_KEY": key}


def test_the_outbox_with_sqlalchemy_sends_what_was_committed_and_nothing_else_also_when_it_is_killed(
    acme: Consumer, operator: Api, start_stack: StartStack, tmp_path: Path
) -> None:
    pytest.importorskip("sqlalchemy")
    stack = start_stack("web")
    env, shop = environment(stack, Role.PRODUCER), f"sqlite:///{tmp_path / 'shop.sqlite3'}"
    subprocess.run([sys.executable, "-c", ORDERS, shop], env=env, check=True)

    def emitted() -> list[str]:
        return [each["id"] for each in operator.get("consumers/acme/feed/").json()["results"]]

    # The second relay finds what the first one had sent, and has perhaps not written down.
    for _ in range(2):
        relay = subprocess.Popen([sys.executable, str(EXAMPLES / "sqlalchemy_outbox.py"), shop], env=env)
        try:
            wait_until(lambda: len(emitted()) >= 2, seconds=60)
        finally:
            relay.kill()
            relay.wait(10)

    assert emitted() == ["committed-1", "committed-2"]


def test_following_the_feed_shows_each_event_as_it_comes(
    acme: Consumer, producer: Api, start_stack: StartStack, tmp_path: Path
) -> None:
    stack = start_stack("web")
    env = environment(stack, Role.CONSUMER, acme)
    command = [sys.executable, "-u", "-m", "webhooks_client.cli", "feed", "acme", "--follow", "--json"]
    shown = tmp_path / "shown"
    with shown.open("wb") as screen:
        reader = subprocess.Popen(command, env=env, stdout=screen)
        try:
            for number in range(3):
                event = {"consumer": "acme", "type": "invoice.paid", "data": {}, "id": f"event-{number}"}
                assert producer.post("events/", event).status_code == 202
                wait_until(lambda known=f'"event-{number}"': known in shown.read_text(), seconds=60)  # type: ignore[misc]
        finally:
            reader.kill()
            reader.wait(10)
