"""The feed's position through Django's ORM."""

from typing import Any

import httpx
import pytest
from webhooks_client.receive import FeedListener, Receiver

from tests.feed_server import feed_event
from tests.platform import Platform


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


def test_killed_between_the_work_and_the_position_the_event_comes_again_and_is_a_duplicate() -> None:
    from django.contrib.auth.models import Group
    from webhooks_client.django.receipts import DjangoStore

    class KilledOnce(DjangoStore):
        killed = False

        def set_position(self, name: str, cursor: str) -> None:
            if not self.killed:
                self.killed = True
                raise Killed
            super().set_position(name, cursor)

    def answer(request: httpx.Request) -> httpx.Response:
        shown = [feed_event(1)] if "cursor" not in request.url.params else []
        return httpx.Response(200, json={"results": shown, "next": "http://x/?cursor=a" if shown else None})

    def work(event: Any, _: Any) -> None:
        Group.objects.create(name=event.id)

    store = KilledOnce()
    receiver = Receiver([], store=store, work=work)
    listener = FeedListener(Platform([answer]).client(), "acme", receiver, positions=store)
    with pytest.raises(Killed):
        listener.catch_up()
    assert (store.position("acme"), Group.objects.count()) == (None, 1)
    assert listener.catch_up() == 1
    assert (store.position("acme"), Group.objects.count()) == ("a", 1)
    assert receiver.counters.snapshot()["duplicate"] == 1


def test_a_position_moves_and_each_name_has_its_own() -> None:
    from webhooks_client.django.receipts import DjangoStore

    store = DjangoStore()
    store.set_position("acme", "a")
    store.set_position("acme", "b")
    assert (store.position("acme"), store.position("other")) == ("b", None)
