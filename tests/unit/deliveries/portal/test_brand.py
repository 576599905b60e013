"""deliveries/portal/brand.py: whose portal it is, in colours that can be read."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deliveries.portal import brand

PAPER, CARD, NIGHT = (246, 247, 249), (255, 255, 255), (22, 27, 34)


def colours(css: str, name: str) -> list[tuple[int, int, int]]:
    found = re.findall(rf"--{name}: #([0-9a-f]{{6}})", css)
    return [(int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)) for text in found]


@given(st.integers(0, 0xFFFFFF))
def test_whatever_colour_is_given_links_and_buttons_can_be_read_light_and_dark(value: int) -> None:
    css = brand.css(f"{value:06x}")
    [light, dark], [ink, night_ink] = colours(css, "accent"), colours(css, "on-accent")
    assert min(brand.contrast(light, PAPER), brand.contrast(light, CARD), brand.contrast(dark, NIGHT)) >= 4.5
    assert min(brand.contrast(light, ink), brand.contrast(dark, night_ink)) >= 4.5


def test_a_colour_that_can_be_read_stays_what_it_is() -> None:
    assert colours(brand.css("3451d1"), "accent")[0] == (0x34, 0x51, 0xD1)


def test_a_link_says_otherwise_than_the_settings(settings: Any) -> None:
    settings.PORTAL_NAME, settings.PORTAL_LEGAL = "Ours", "All rights"
    found = brand.of({"name": "Theirs", "accent": "#ABCDEF", "logo_url": "https://cdn.test:8443/a/logo.svg"})
    assert (found.name, found.accent, found.legal) == ("Theirs", "abcdef", "All rights")
    assert found.logo_origin == "https://cdn.test:8443"


@pytest.mark.parametrize("colour", ["red", "3451D1", "3451d1;}", "3451d", ""])
def test_what_is_no_colour_has_no_stylesheet(colour: str, rf: Any) -> None:
    assert brand.stylesheet(rf.get("/"), colour).status_code == 404
