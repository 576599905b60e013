"""Every page of the portal, examined by axe: wide and narrow, light and dark; and in German nothing sticks out.

PORTAL_PICTURES=folder photographs each page as well.
"""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

from deliveries.portal import site
from subscriptions.models import Consumer
from tests import axe
from tests.browser import ask, needs_browser
from tests.portal import link
from tests.portal_pages import BESIDE, PATHS, furnish
from tests.receiver import Receiver
from tests.stack import StartStack

PICTURES = os.environ.get("PORTAL_PICTURES", "")
pytestmark = [
    *needs_browser[:1],
    pytest.mark.timeout(900),
]
# Parts of a page, what is no page, and what is looked at before and after a session.
NO_PAGES = {"brand", "check-url", "verified", "endpoint-deliveries", "leave", "left", "enter", "mail"}


def test_every_page_on_the_map_is_examined() -> None:
    pages = {str(url.name) for url in site.urlpatterns if "GET" in getattr(url.callback, "methods", ())}
    assert set(PATHS) == pages - NO_PAGES


def test_axe_finds_nothing_on_any_page(start_stack: StartStack, acme: Consumer, receiver: Receiver, page: Page) -> None:
    given = ask(lambda: furnish(acme, receiver))
    origin = start_stack("web").url
    axe.install(page)
    # Colours that change slowly would be measured on their way.
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{origin}{ask(lambda: link(acme))}")
    found = _examined(page, "enter")
    page.get_by_role("button").click()
    page.wait_for_url(f"{origin}/portal/")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name, path in {**PATHS, **BESIDE}.items():
            page.goto(f"{origin}/portal/{path.format(**given)}")
            found += _examined(page, name)
            page.goto(f"{origin}/portal/{path.format(**given)}{'&' if '?' in path else '?'}language=de")
            found += _too_wide(page, f"{name}-de")
            page.context.clear_cookies(name="portal_language")
    assert found == [], "\n".join(sorted(set(found)))


def _examined(page: Page, name: str) -> list[str]:
    found = [f"{name}: {each}" for each in axe.findings(page)]
    # What is dark differs in its colours alone.
    page.emulate_media(color_scheme="dark")
    found += [f"{name} dark: {each}" for each in axe.findings(page, only="color-contrast")]
    page.emulate_media(color_scheme="light")
    return found + _too_wide(page, name)


def _too_wide(page: Page, name: str) -> list[str]:
    width = page.viewport_size["width"] if page.viewport_size else 0
    for theme in ("dark", "light") if PICTURES else ():
        page.emulate_media(color_scheme=theme)
        page.screenshot(path=str(Path(PICTURES) / f"{name}-{theme}-{width}.png"), full_page=True)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [f"{width} {name}: {wide} px too wide"] if wide > 0 else []
