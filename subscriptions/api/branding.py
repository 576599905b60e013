"""Whose portal it is: what a link may say other than the deployment's settings."""

import re
from typing import Any

from rest_framework import serializers

from subscriptions.api.fields import Text

_ACCENT = re.compile(r"#[0-9a-fA-F]{6}")
_HTTPS = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[!-~]*)?")
_MAILTO = re.compile(r"mailto:[!-~]+")


class BrandingIn(serializers.Serializer[Any]):
    """Whose portal it is."""

    name = Text(required=False, max_length=80, help_text="Who sends the webhooks.")
    logo_url = Text(
        required=False, max_length=2048, keywords={"pattern": f"^{_HTTPS.pattern}$"}, help_text="Of an image, https."
    )
    accent = Text(
        required=False, keywords={"pattern": f"^{_ACCENT.pattern}$"}, help_text="Of buttons and links, like #3451d1."
    )
    support_url = Text(
        required=False,
        max_length=2048,
        keywords={"pattern": f"^({_HTTPS.pattern}|{_MAILTO.pattern})$"},
        help_text="Where to ask for help: https or mailto.",
    )
    legal = Text(required=False, max_length=500, help_text="The line at the end of every page.")

    def validate_logo_url(self, url: str) -> str:
        if _HTTPS.fullmatch(url) is None:
            raise serializers.ValidationError("A URL that begins with https://.")
        return url

    def validate_support_url(self, url: str) -> str:
        if _HTTPS.fullmatch(url) is None and _MAILTO.fullmatch(url) is None:
            raise serializers.ValidationError("A URL that begins with https:// or mailto:.")
        return url

    def validate_accent(self, colour: str) -> str:
        if _ACCENT.fullmatch(colour) is None:
            raise serializers.ValidationError("A colour like #3451d1.")
        return colour.lower()
