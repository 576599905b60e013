"""What was seen of a failed attempt, where people look for it: API, console, portal, tests and check-ups (W19)."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from html import escape

import pytest

from deliveries.models import Attempt
from subscriptions.models import Consumer
from tests.conftest import Api, PumpRunner
from tests.console import logged_in
from tests.portal import inside
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

SEEN = (
    "The receiver's answer is not valid HTTP. (Expected HTTP/, RTSP/ or ICE/; received"
    ' "<b>SSH-2.0</b>\\r\\n\\x00[redacted]\\xff")'
)


@pytest.fixture
def ssh_server() -> Iterator[str]:
    """Says the same to everybody, a secret it was sent included."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"<b>SSH-2.0</b>\r\n\0s3cret-token\xff")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_w19_the_detail_of_a_failure_is_shown_wherever_people_look(
    acme: Consumer, acme_api: Api, operator: Api, pump: PumpRunner, ssh_server: str
) -> None:
    endpoint = new_endpoint(acme, url=ssh_server, headers={"Authorization": "s3cret-token"})
    accept(acme)
    pump.run()

    [attempt] = Attempt.objects.all()
    assert (attempt.error_kind, attempt.error_detail) == ("bad_response", SEEN)
    delivery = attempt.delivery.public_id
    [shown] = acme_api.get(f"deliveries/{delivery}/").json()["attempts"]
    assert (shown["error_kind"], shown["error_detail"]) == ("bad_response", SEEN)
    tested = acme_api.post(f"endpoints/{endpoint.public_id}/test/").json()
    assert (tested["error_kind"], tested["error_detail"]) == ("bad_response", SEEN)
    checked = acme_api.post(f"endpoints/{endpoint.public_id}/check-up/").json()
    assert checked["findings"][0]["received"].endswith(SEEN)

    console, portal = logged_in("op", is_superuser=True), inside(acme)
    for page in (
        console.get(f"/admin/deliveries/{delivery}/"),
        portal.get(f"/portal/deliveries/{delivery}/"),
    ):
        assert escape(SEEN).replace("&#x27;", "&#39;") in page.content.decode().replace("&#x27;", "&#39;")
