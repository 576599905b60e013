"""webhooks_platform/web: connections that are cut, and bodies that cannot be read."""

import socket
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.local import wait_until
from webhooks_platform.web.admission import longest_request_seconds
from webhooks_platform.web.bodies import BodyDeadlines, RequestBody
from webhooks_platform.web.slots import RequestSlots
from webhooks_platform.web.stalled import StalledConnections


@pytest.fixture
def dripping() -> Iterator[socket.socket]:
    """The client's end of a connection on which it was answered, and goes on sending."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"408")
            assert client.recv(3) == b"408"
            client.sendall(b"x")
            yield client


def test_a_client_that_goes_on_sending_is_cut_once_no_request_takes_so_long(dripping: socket.socket) -> None:
    assert StalledConnections(seconds=3600, longest_seconds=3600).cut() == 0
    at_once = StalledConnections(seconds=3600, longest_seconds=0)
    wait_until(lambda: at_once.cut() > 0)
    dripping.settimeout(20)
    assert dripping.recv(1) == b""


def test_the_longest_request_is_the_largest_body_at_the_slowest_rate_and_the_work(settings: Settings) -> None:
    assert longest_request_seconds() == 10 + 128 + 45
    settings.MAX_BATCH_BODY_BYTES = 16 << 20
    assert longest_request_seconds() == 10 + 256 + 45
    settings.CONNECTION_STALL_SECONDS = 1000
    assert longest_request_seconds() == 1000


class Broken:
    """A stream whose client is gone."""

    def read(self, size: int | None = None) -> bytes:
        raise ConnectionResetError


def test_a_body_that_cannot_be_read_is_not_waited_for_any_more() -> None:
    clock = BodyDeadlines()
    body = RequestBody(Broken(), path="/", length=5, seconds=60, slots=RequestSlots(1), clock=clock, is_form=True)
    with pytest.raises(ConnectionResetError):
        body.read()
    assert clock.end(body) is False
