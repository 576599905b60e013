"""The console in a real browser, on the platform as deployed: from a failing endpoint to its dead letters delivered."""

from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from deliveries.models import Delivery
from deliveries.replaying.models import Replay
from subscriptions import endpoints, keys
from subscriptions.models import AuditEntry, Consumer, Role
from tests.browser import ask, needs_browser
from tests.console import role
from tests.local import wait_until
from tests.receiver import Receiver, Reply
from tests.stack import StartStack

pytestmark = needs_browser

PASSWORD = "a-password-of-the-test"
COUNT = 30


def test_from_a_failing_endpoint_to_everything_delivered(
    start_stack: StartStack, acme: Consumer, receiver: Receiver, page: Page
) -> None:
    ask(lambda: User.objects.create_user("olga", password=PASSWORD, is_staff=True).groups.add(role("Operators")))
    receiver.answer = lambda _: Reply(500, b'{"error": "<b>broken</b>"}')
    ask(lambda: endpoints.create(consumer=acme, url=receiver.url, retry_schedule=[0], max_in_flight=50))
    stack = start_stack("web", "deliveries1", "background", "beat", BREAKER_FAILURES="1000")
    client = stack.client(ask(lambda: keys.issue(role=Role.PRODUCER)[1]))
    event = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 1}}
    assert client.post("events/batch/", json={"events": [event] * COUNT}).status_code == 202
    wait_until(lambda: ask(Delivery.objects.filter(state="dead").count) == COUNT)

    # Log in, and see the failing endpoint on the overview, which follows by itself.
    page.goto(f"{stack.url}/admin/")
    page.fill("input[name=username]", "olga")
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    row = page.locator("tr", has_text=receiver.url)
    expect(row).to_be_visible(timeout=20_000)
    expect(row).to_contain_text("0.0 %")

    # Its dead letters, one of them in full, and the preview of replaying them all.
    row.get_by_role("link", name="Dead letters").click()
    expect(page.get_by_role("cell", name="500 Internal Server Error").first).to_be_visible()
    page.locator("table").last.locator("a.c-mono").first.click()
    expect(page.get_by_role("heading", name="Every attempt failed")).to_be_visible()
    expect(page.get_by_text('"error": "<b>broken</b>"')).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Replay all that match…").click()
    expect(page.get_by_role("heading", name=f"{COUNT} deliveries would go out again")).to_be_visible()

    # The receiver is fixed; the replay is watched to its end.
    receiver.answer = lambda _: Reply(200)
    page.fill("input[name=rate]", "20")
    page.fill("input[name=why]", "receiver fixed")
    page.get_by_role("button", name=f"Replay {COUNT} deliveries").click()
    expect(page.locator(f"[data-replayed='{COUNT}']")).to_be_visible(timeout=30_000)
    expect(page.locator(".c-pill", has_text="done")).to_be_visible(timeout=10_000)
    wait_until(lambda: ask(Delivery.objects.filter(state="delivered").count) == COUNT)
    page.get_by_role("link", name="Deliveries of this endpoint").click()
    expect(page.locator(".c-pill", has_text="delivered")).to_have_count(COUNT)
    page.get_by_role("link", name="Dead letters").first.click()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()

    entry, job = ask(AuditEntry.objects.get), ask(Replay.objects.get)
    assert (entry.actor, entry.action, entry.count, entry.why) == (
        "user olga",
        "replay.started",
        COUNT,
        "receiver fixed",
    )
    assert (job.status, job.replayed) == ("done", COUNT)


def test_a_deed_asks_first_and_says_what_it_did(
    start_stack: StartStack, acme: Consumer, receiver: Receiver, page: Page
) -> None:
    ask(lambda: User.objects.create_superuser("root", password=PASSWORD))
    endpoint, _ = ask(lambda: endpoints.create(consumer=acme, url=receiver.url))
    stack = start_stack("web")
    page.goto(f"{stack.url}/admin/endpoints/{endpoint.public_id}/")
    page.fill("input[name=username]", "root")
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause this endpoint?")
    dialog.get_by_role("textbox").fill("their request")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused. What comes for it waits.")).to_be_visible()
    ask(endpoint.refresh_from_db)
    assert endpoint.status == "paused"
    expect(page.get_by_text("by root: their request")).to_be_visible()
    # A kill switch, and its banner on the page it came from.
    page.get_by_role("link", name="Kill switches").click()
    page.get_by_role("button", name="Hold everything").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("bad deploy")
    page.get_by_role("dialog").get_by_role("button", name="Hold everything").click()
    expect(page.get_by_role("alert").get_by_text("Everything is held: nothing goes out.")).to_be_visible()
