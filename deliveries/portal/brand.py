"""Whose portal it is: name, logo, accent and links, by the settings or by the link that was opened. Pure but for those.

The accent is a stylesheet of its own, addressed by its colour: pages need no inline style, and it can be cached.
"""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse

COLOUR = re.compile(r"[0-9a-f]{6}")
# What text and buttons stand on, light and dark (portal.css: --bg, --accent-bg and their like).
_PAPER, _NIGHT = (246, 247, 249), (22, 27, 34)
# What WCAG asks of text.
_READABLE = 4.5

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Brand:
    name: str
    logo_url: str
    # Six hex digits.
    accent: str
    support_url: str
    legal: str

    @property
    def logo_origin(self) -> str:
        """For the content policy; empty where there is no logo."""
        parts = urlsplit(self.logo_url)
        return f"{parts.scheme}://{parts.netloc}" if self.logo_url else ""


def of(branding: dict[str, Any]) -> Brand:
    """What the link says, else what the settings say. Both were checked when they were given."""
    return Brand(
        name=branding.get("name") or settings.PORTAL_NAME,
        logo_url=branding.get("logo_url") or settings.PORTAL_LOGO_URL,
        accent=(branding.get("accent") or settings.PORTAL_ACCENT).lower().removeprefix("#"),
        support_url=branding.get("support_url") or settings.PORTAL_SUPPORT_URL,
        legal=branding.get("legal") or settings.PORTAL_LEGAL,
    )


def stylesheet(request: HttpRequest, colour: str) -> HttpResponse:
    if COLOUR.fullmatch(colour) is None:
        return HttpResponse(status=404)
    answer = HttpResponse(css(colour), content_type="text/css")
    answer["Cache-Control"] = "public, max-age=86400"
    return answer


def css(colour: str) -> str:
    given = _parse(colour)
    light, dark = _towards(given, (0, 0, 0), on=_PAPER), _towards(given, (255, 255, 255), on=_NIGHT)
    return (
        f":root {{ {_rules(light, over=_PAPER)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_rules(dark, over=_NIGHT)} }} }}\n"
    )


def contrast(one: Colour, other: Colour) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _rules(accent: Colour, *, over: Colour) -> str:
    ink = max(((255, 255, 255), (13, 17, 23)), key=lambda each: contrast(each, accent))
    return f"--accent: {_hex(accent)}; --on-accent: {_hex(ink)}; --accent-bg: {_hex(_mix(over, accent, 0.1))};"


def _towards(colour: Colour, end: Colour, *, on: Colour) -> Colour:
    """As little as needed: the accent stays recognisable, and can be read on its background."""
    mixed = (_mix(colour, end, step / 20) for step in range(21))
    return next(each for each in mixed if contrast(each, on) >= _READABLE)


def _mix(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parse(text: str) -> Colour:
    return int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{value:02x}" for value in colour)
