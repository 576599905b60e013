"""Every page of the console, examined by axe: wide and narrow, light and dark. A finding fails the test.

CONSOLE_PICTURES=folder photographs each page as well.
"""

import os
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.console.site import PAGE
from deliveries.statistics import deltas, rollup, totals
from subscriptions import event_types, keys
from subscriptions.models import Consumer, Role
from subscriptions.signing import schemes
from tests import axe
from tests.browser import ask, needs_browser
from tests.console import dead_letters, on_the_map
from tests.stack import StartStack
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

PICTURES = os.environ.get("CONSOLE_PICTURES", "")
pytestmark = [
    *needs_browser[:1],
    pytest.mark.timeout(900),
]
PASSWORD = "a-password-of-the-test"
PATHS = {
    "index": "", "find": "find/?q=receiver", "dead-letters": "dead-letters/",
    "replay-preview": "dead-letters/replay/?endpoint={endpoint}", "replays": "replays/", "replay": "replays/{replay}/",
    "deliveries": "deliveries/", "delivery": "deliveries/{delivery}/", "events": "events/", "event": "events/{event}/",
    "endpoints": "endpoints/?sort=success", "endpoint": "endpoints/{endpoint}/",
    "endpoint-limits": "endpoints/{endpoint}/limits/",
    "endpoint-secret": "endpoints/{endpoint}/secret/none/", "consumers": "consumers/",
    "consumer": "consumers/{consumer}/", "consumer-edit": "consumers/{consumer}/edit/",
    "consumer-link": "consumers/{consumer}/portal-link/none/", "switches": "switches/",
    "limits": "limits/?consumer=acme",
    "keys": "keys/", "key": "keys/{key}/", "key-new": "new-key/", "key-shown": "keys/shown/none/",
    "event-types": "event-types/", "event-type": "event-types/invoice.paid/", "event-type-new": "new-event-type/",
    "signatures": "signatures/", "signature": "signatures/own-way/", "signature-new": "new-signature/",
    "users": "users/", "user": "users/{user}/", "user-new": "new-user/",
    "user-password": "users/{user}/password/none/", "audit": "audit/",
}  # fmt: skip
BESIDE = {"account": "account/", "password": "password_change/"}


def something_of_everything(acme: Consumer) -> dict[str, str]:
    endpoint, [delivery, *_] = dead_letters(acme, 3, status_code=500)
    other = new_endpoint(acme, url="https://other.receiver.test/hook", event_types=["order.made"])
    accept(acme, 3, type="order.made")
    settle_all(*(answered(each, 200) for each in claim_for(other).deliveries[:1]))
    job = replay.start(Filter(endpoint_id=endpoint.id), consumer=acme, rate_per_second=1, requested_by="somebody")
    version = {"api_version": "1", "schema": {"type": "object"}, "example": {"amount": 1}}
    event_types.create(name="invoice.paid", description="An invoice was paid.", versions=[version])
    schemes.create(name="own-way", description="As our old sender signed.", signed="{body}", hash="sha1")
    key, _ = keys.issue(role=Role.CONSUMER, consumer=acme, name="catch-up job")
    User.objects.create_superuser("root", password=PASSWORD)
    ulla = User.objects.create_user("ulla", email="ulla@example.test", is_staff=True)
    deltas.write({(deltas.IDEMPOTENCY, "new database"): 3, (deltas.IDEMPOTENCY, "replayed database"): 1})
    totals.fold()
    rollup.sum_up(now=timezone.now())
    return {
        "endpoint": endpoint.public_id, "delivery": delivery.public_id, "event": str(delivery.event_id),
        "consumer": acme.public_id, "replay": job.public_id, "key": key.public_id, "user": str(ulla.pk),
    }  # fmt: skip


def examine(page: Page, name: str, theme: str) -> list[str]:
    page.evaluate("dark => document.documentElement.classList.toggle('dark', dark)", theme == "dark")
    if PICTURES:
        width = page.viewport_size["width"] if page.viewport_size else 0
        page.screenshot(path=str(Path(PICTURES) / f"{name}-{theme}-{width}.png"), full_page=True)
    # What is dark differs in its colours alone.
    found = axe.findings(page, only="color-contrast" if theme == "dark" else "")
    return [f"{name} {theme}: {each}" for each in found]


def test_every_page_on_the_map_is_examined() -> None:
    assert on_the_map(PAGE) == set(PATHS)


def test_axe_finds_nothing_on_any_page(start_stack: StartStack, acme: Consumer, page: Page) -> None:
    given = ask(lambda: something_of_everything(acme))
    url = f"{start_stack('web').url}/admin"
    found: list[str] = []
    axe.install(page)
    page.goto(f"{url}/login/")
    found += examine(page, "login", "light") + examine(page, "login", "dark")
    page.fill("input[name=username]", "root")
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(f"{url}/")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name, path in {**PATHS, **BESIDE}.items():
            page.goto(f"{url}/{path.format(**given)}")
            found += [f"{width} {each}" for theme in ("light", "dark") for each in examine(page, name, theme)]
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            found += [f"{width} {name}: {wide} px too wide"] if wide > 0 else []
    assert found == [], "\n".join(sorted(set(found)))
