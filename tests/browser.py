"""A real browser for the tests of pages: Chromium from the system, and a way to ask the database beside it."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from django.db import connections
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

# However busy the machine is (milliseconds).
expect.set_options(timeout=30_000)

T = TypeVar("T")

needs_browser = [
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH (chromium, chromium-browser or google-chrome)"),
    pytest.mark.timeout(180),
]


def ask(question: Callable[[], T]) -> T:
    """Of the database, in a thread of its own: Playwright's event loop runs in this one, where Django refuses to."""

    def in_thread() -> T:
        try:
            return question()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(in_thread).result()


@pytest.fixture
def page() -> Iterator[Page]:
    """A tab that fails the test on any script error, any refused request and anything a content policy stopped."""
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda line: problems.append(line.text) if "Content Security Policy" in line.text else None)
        tab.on("response", lambda answer: problems.append(answer.url) if answer.status >= 400 else None)
        yield tab
        browser.close()
    assert problems == []
