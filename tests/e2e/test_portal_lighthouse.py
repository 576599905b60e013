"""Lighthouse on every page of the portal: accessibility and best practices have to be 100. `make lighthouse` runs it.

It wants npx and Chromium, and takes some minutes; LIGHTHOUSE=npx says that it is wanted, ONLY=home,keys which pages.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import Page

from subscriptions.models import Consumer
from tests.browser import CHROMIUM, OPTIONS, ask, needs_browser
from tests.portal import link
from tests.portal_pages import PATHS, furnish
from tests.receiver import Receiver
from tests.stack import StartStack

NPX = shutil.which(os.environ.get("LIGHTHOUSE", ""))
PACKAGE = "lighthouse@12"
ONLY = os.environ["ONLY"].split(",") if os.environ.get("ONLY") else list(PATHS)
CATEGORIES = ("accessibility", "best-practices")
pytestmark = [
    *needs_browser[:1],
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not NPX, reason="`make lighthouse` runs it: LIGHTHOUSE names no npx"),
]


def test_every_page_of_the_portal_has_100(
    start_stack: StartStack, acme: Consumer, receiver: Receiver, page: Page
) -> None:
    given = ask(lambda: furnish(acme, receiver))
    origin = start_stack("web").url
    page.goto(f"{origin}{ask(lambda: link(acme))}")
    page.get_by_role("button").click()
    page.wait_for_url(f"{origin}/portal/")
    cookies = "; ".join(f"{each['name']}={each['value']}" for each in page.context.cookies())

    found = {}
    for name in ONLY:
        found[name] = lost(f"{origin}/portal/{PATHS[name].format(**given)}", cookies)
        sys.stdout.write(f"{name}: {found[name]}\n")
        sys.stdout.flush()
    assert found == {name: ({"accessibility": 100, "best-practices": 100}, []) for name in ONLY}


def lost(url: str, cookies: str) -> tuple[dict[str, int], list[str]]:
    """The scores, out of 100, and what costs some of it."""
    command = [
        str(NPX), "--yes", PACKAGE, url, "--quiet", "--output=json", f"--only-categories={','.join(CATEGORIES)}",
        f"--extra-headers={json.dumps({'Cookie': cookies})}", f"--chrome-flags=--headless=new {' '.join(OPTIONS)}",
    ]  # fmt: skip
    run = subprocess.run(
        command, env={**os.environ, "CHROME_PATH": CHROMIUM or ""}, capture_output=True, timeout=300, check=True
    )
    report = json.loads(run.stdout)
    categories = {name: report["categories"][name] for name in CATEGORIES}
    weighed = {each["id"] for category in categories.values() for each in category["auditRefs"] if each["weight"]}
    failed = [name for name in sorted(weighed) if (report["audits"][name]["score"] or 0) < 1]
    # What does not apply to a page has no score and costs nothing.
    applies = [name for name in failed if report["audits"][name]["score"] is not None]
    return {name: round(100 * category["score"]) for name, category in categories.items()}, applies
