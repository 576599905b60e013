"""The portal in a real browser, on the platform as deployed, by somebody who has only the link: an endpoint, verified,
a test event, a broken receiver, why, repaired, replayed, rotated, what was missed sent.

Each page on the way is examined by axe. PORTAL_PICTURES=folder photographs it, light and dark, wide and narrow.
"""

import hashlib
import hmac
import http.server
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect

from deliveries.endpoint_tests.models import SentTest
from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from subscriptions.models import Consumer, Endpoint
from tests import axe
from tests.browser import ask, needs_browser
from tests.local import wait_until
from tests.portal import link
from tests.portal_pages import declare_types
from tests.receiver import Received, Receiver, Reply
from tests.stack import StartStack
from tests.walk import accept

pytestmark = needs_browser

PICTURES = os.environ.get("PORTAL_PICTURES")


class Look:
    """Examines pages, and photographs them where the environment asks for it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        axe.install(page)

    def at(self, name: str) -> None:
        assert (name, axe.findings(self.page)) == (name, [])
        if PICTURES:
            for scheme in ("light", "dark"):
                self.page.emulate_media(color_scheme=scheme)
                for width in (1440, 390):
                    self.page.set_viewport_size({"width": width, "height": 900})
                    path = f"{PICTURES}/{name}-{scheme}-{width}.png"
                    self.page.screenshot(path=path, full_page=True)
            self.page.emulate_media(color_scheme="light")
            self.page.set_viewport_size({"width": 1400, "height": 900})


class Verifying:
    """Answers as a receiver that verifies, once it has the secret; or as it is told while it is broken."""

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.broken = False

    def __call__(self, received: Received) -> Reply:
        if self.broken:
            return Reply(500, b"database is away")
        header = received.headers.get("webhook-signature", "")
        parts = [part.split("=", 1) for part in header.split(",")]
        at = next(value for name, value in parts if name == "t")
        signed = at.encode() + b"." + received.body
        good = {hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in self.secrets}
        if abs(time.time() - int(at)) > 300 or not good & {value for name, value in parts if name == "v1"}:
            return Reply(401, b"wrong signature")
        return Reply(200, b'{"ok": true}')


def test_from_a_link_to_a_verified_webhook_and_back_from_an_outage(
    start_stack: StartStack, acme: Consumer, receiver: Receiver, page: Page
) -> None:
    ask(declare_types)
    ask(lambda: accept(acme, 3, type="order.made"))
    theirs, look = Verifying(), Look(page)
    receiver.answer = theirs
    stack = start_stack("web", "deliveries1", "background", "beat")

    # In, and the first step.
    page.goto(f"{stack.url}{ask(lambda: link(acme))}")
    look.at("01-link")
    page.get_by_role("button", name="Open the portal").click()
    expect(page.get_by_text("From here to your first event")).to_be_visible()
    look.at("02-empty")
    page.get_by_role("link", name="New endpoint").click()

    # The form answers while somebody types, and takes types from the catalogue.
    page.get_by_label("URL").fill("http://10.0.0.256/")
    expect(page.locator("#url-verdict.bad")).not_to_be_empty()
    page.get_by_label("URL").fill(receiver.url)
    expect(page.locator("#url-verdict.good")).to_be_visible()
    page.get_by_label("All event types").uncheck()
    page.get_by_label("Search event types").fill("paid")
    expect(page.get_by_text("order.made")).to_be_hidden()
    page.get_by_label("Search event types").fill("")
    page.get_by_role("checkbox", name="invoice.*").check()
    look.at("03-form")
    page.get_by_role("button", name="Create endpoint").click()

    # The secret, and a receiver that verifies with it.
    expect(page.locator("pre.secret")).to_contain_text("whsec_")
    theirs.secrets = [page.locator("pre.secret").inner_text()]
    look.at("04-secret")
    endpoint = ask(Endpoint.objects.get)
    assert endpoint.event_types == ["invoice.*"]
    expect(page.get_by_text("not verified yet")).to_be_visible()
    page.get_by_role("button", name="Run the check-up").click()
    # Without leaving the page: the secret is still there to be copied.
    expect(page.get_by_text("your receiver took a genuine request and refused a forged one")).to_be_visible()
    expect(page.locator("pre.secret")).to_contain_text("whsec_")
    look.at("04-secret-verified")

    # A test event, edited from its example.
    page.get_by_role("link", name="Send a test event").click()
    page.get_by_label("Event type").select_option("invoice.paid")
    expect(page.get_by_label("Data of invoice.paid")).to_have_value(re.compile("2026-0042"))
    look.at("05-test")
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("Your receiver took it.")).to_be_visible()
    look.at("06-sent-test")
    assert ask(SentTest.objects.get).type == "invoice.paid"
    assert receiver.received[-1].headers["webhook-test"] == "true"

    # An outage: dead letters that say why.
    ask(lambda: Endpoint.objects.update(retry_schedule=[0]))
    theirs.broken = True
    ask(lambda: accept(acme, 4))
    wait_until(lambda: ask(lambda: Delivery.objects.filter(state="dead").count()) == 4)
    page.get_by_role("link", name="Deliveries").first.click()
    expect(page.get_by_text("500 Internal Server Error").first).to_be_visible()
    look.at("07-deliveries")
    page.get_by_role("link", name="invoice.paid").first.click()
    expect(page.get_by_text("its own log of that moment says why")).to_be_visible()
    look.at("08-delivery")
    page.get_by_role("link", name="Debug its signature").click()
    expect(page.get_by_label("Headers")).not_to_be_empty()
    look.at("09-debugger")

    # Repaired, and all of it replayed.
    theirs.broken = False
    page.get_by_role("link", name="Endpoints").first.click()
    look.at("10-endpoints")
    page.get_by_role("link", name="4 dead letters").click()
    page.get_by_role("link", name="Replay all that match").click()
    look.at("11-replay-preview")
    page.get_by_role("button", name="Replay 4").click()
    expect(page.get_by_text("Of 4: 4 delivered.")).to_be_visible()
    look.at("12-replay")
    assert ask(Replay.objects.get).matched == 4

    # Rotated: both secrets sign, then the old one is ended.
    page.get_by_role("link", name="Endpoints").first.click()
    page.get_by_role("link", name=receiver.url).click()
    look.at("13-endpoint")
    page.get_by_text("Rotate secret").click()
    page.get_by_role("button", name="Make a new secret").click()
    theirs.secrets = [page.locator("pre.secret").inner_text()]
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_text("End the old one now").click()
    page.get_by_role("button", name="End it now").click()
    expect(page.get_by_text("The old secret no longer signs.")).to_be_visible()

    # What was accepted before the endpoint wanted it.
    page.get_by_role("link", name="Change").click()
    page.get_by_role("checkbox", name="order.*").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Send what it missed").click()
    expect(page.get_by_text("3 missed events")).to_be_visible()
    look.at("14-missed")
    page.get_by_role("button", name="Send 3").click()
    expect(page.get_by_text("Of 3: 3 delivered.")).to_be_visible()

    for name, path in (("15-events", "events/"), ("16-event-type", "events/invoice.paid/"), ("17-keys", "keys/"),
                       ("18-catch-up", "catch-up/"), ("19-replays", "replays/")):  # fmt: skip
        page.goto(f"{stack.url}/portal/{path}")
        look.at(name)
    page.get_by_role("button", name="End session").click()
    expect(page.get_by_role("heading", name="Session ended")).to_be_visible()


def test_it_works_in_a_frame_of_an_origin_that_is_named_and_in_no_other(
    start_stack: StartStack, acme: Consumer, receiver: Receiver, page: Page
) -> None:
    with framing_site() as site:
        stack = start_stack("web", PORTAL_FRAME_ORIGINS=f"http://localhost:{site.server_port}")
        site.framed = f"{stack.url}{ask(lambda: link(acme))}"
        page.goto(f"http://localhost:{site.server_port}/")
        frame = page.frame_locator("iframe")
        frame.get_by_role("button", name="Open the portal").click()
        frame.get_by_role("link", name="New endpoint").click()
        frame.get_by_label("URL").fill(receiver.url)
        frame.get_by_role("button", name="Create endpoint").click()
        expect(frame.locator("pre.secret")).to_contain_text("whsec_")
        assert ask(Endpoint.objects.get).url == receiver.url

        # The same page from another port is another origin.
        with framing_site() as other:
            other.framed = f"{stack.url}/portal/left/"
            # In a tab of its own: the refusal is what the other tab would fail for.
            assert page.context.browser is not None
            tab = page.context.browser.new_page()
            tab.goto(f"http://localhost:{other.server_port}/")
            tab.wait_for_load_state("networkidle")
            assert [frame.url for frame in tab.frames][1:] == ["chrome-error://chromewebdata/"]


class FramingSite(http.server.ThreadingHTTPServer):
    framed = ""


@contextmanager
def framing_site() -> Iterator[FramingSite]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'<!DOCTYPE html><iframe src="{site.framed}" width="1200" height="800"></iframe>'.encode()
            self.send_response(200 if self.path == "/" else 204)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body) if self.path == "/" else 0))
            self.end_headers()
            if self.path == "/":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    site = FramingSite(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.shutdown()
        site.server_close()
        thread.join(5)
