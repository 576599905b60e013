"""The portal in a real browser, on the platform as deployed: in by a link, an endpoint, its secret, a check-up, out."""

from playwright.sync_api import Page, expect

from deliveries.models import Replay
from subscriptions.models import Consumer, Endpoint
from tests.browser import ask, needs_browser
from tests.console import dead_letters
from tests.portal import link
from tests.receiver import Receiver, Reply
from tests.stack import StartStack

pytestmark = needs_browser


def test_from_a_link_to_a_checked_endpoint_and_replayed_failures(
    start_stack: StartStack, acme: Consumer, receiver: Receiver, page: Page
) -> None:
    receiver.answer = lambda _: Reply(200, b"<b>taken unseen</b>")
    stack = start_stack("web")
    page.goto(f"{stack.url}{ask(lambda: link(acme))}")
    page.get_by_role("button", name="Open the portal").click()

    # An endpoint, and its secret this once.
    page.get_by_role("link", name="New endpoint").click()
    page.get_by_label("URL").fill(receiver.url)
    page.get_by_role("button", name="Create endpoint").click()
    expect(page.locator("pre.secret")).to_contain_text("whsec_")
    page.get_by_role("link", name="I have copied it").click()
    assert ask(Endpoint.objects.get).url == receiver.url

    # Its receiver accepts everything, and is told so; what it answered stays text.
    page.get_by_role("button", name="Check now").click()
    expect(page.get_by_text("It does not verify: it accepts what nobody signed")).to_be_visible()
    expect(page.locator("details[open]").get_by_text("<b>taken unseen</b>").first).to_be_visible()

    # Failures of another endpoint, looked at and replayed.
    broken, _ = ask(lambda: dead_letters(acme, 3, url="https://receiver.test/broken"))
    page.get_by_role("link", name="Endpoints").first.click()
    page.get_by_role("link", name="3 dead letters").click()
    page.get_by_role("link", name="invoice.paid").first.click()
    expect(page.get_by_text("503 Service Unavailable")).to_be_visible()
    page.get_by_role("link", name="deliveries").click()
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("button", name="Replay all dead letters").click()
    expect(page.get_by_text("3 go out again")).to_be_visible()
    job = ask(Replay.objects.get)
    assert (job.matched, job.filter["endpoint_id"]) == (3, str(broken.id))
    assert job.requested_by.startswith("portal vis_")

    page.get_by_role("button", name="End session").click()
    expect(page.get_by_role("heading", name="Session ended")).to_be_visible()
