"""A signing secret that the caller brings: whoever moves here from another sender keeps what receivers hold."""

import base64
import binascii
import re

from django.utils.translation import gettext as _

from subscriptions.signing.recipe import Recipe

# What can be typed, copied and sent: letters, digits, signs and blanks of ASCII.
PRINTABLE = re.compile(r"[\x20-\x7e]{16,256}")
# Standard Webhooks asks for 24 to 64 random bytes.
_STANDARD_BYTES = range(24, 65)


class Unfit(Exception):
    """Parts of an endpoint that do not fit together. The message is for people."""

    # The field it is about; empty where the caller knows.
    pointer = ""


class UnfitSecret(Unfit):
    """This secret cannot sign in this scheme. The message says what would fit, and never holds the secret."""


def check_secret(secret: str, *, recipe: Recipe) -> None:
    if not PRINTABLE.fullmatch(secret):
        raise UnfitSecret(_("A secret has 16 to 256 printable characters of ASCII."))
    if recipe.key == "base64" and not _is_standard(secret):
        raise UnfitSecret(_("This scheme needs a secret of its own form: `whsec_` and the base64 of 24 to 64 bytes."))


def _is_standard(secret: str) -> bool:
    if not secret.startswith("whsec_"):
        return False
    try:
        return len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) in _STANDARD_BYTES
    except binascii.Error:
        return False
