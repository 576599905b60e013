"""A signing secret that the caller brings: whoever moves here from another sender keeps what receivers hold."""

import base64
import binascii
import re

from django.utils.translation import gettext as _

from subscriptions.models import SignatureScheme

# What can be typed, copied and sent: letters, digits, signs and blanks of ASCII.
PRINTABLE = re.compile(r"[\x20-\x7e]{16,256}")
# Standard Webhooks asks for 24 to 64 random bytes.
_STANDARD_BYTES = range(24, 65)


class UnfitSecret(Exception):
    """This secret cannot sign in this scheme. The message says what would fit, and never holds the secret."""


def check_secret(secret: str, *, scheme: str) -> None:
    if not PRINTABLE.fullmatch(secret):
        raise UnfitSecret(_("A secret has 16 to 256 printable characters of ASCII."))
    if scheme == SignatureScheme.STANDARD and not _is_standard(secret):
        raise UnfitSecret(
            _("The scheme `standard` needs a secret of its own form: `whsec_` and the base64 of 24 to 64 bytes.")
        )


def _is_standard(secret: str) -> bool:
    if not secret.startswith("whsec_"):
        return False
    try:
        return len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) in _STANDARD_BYTES
    except binascii.Error:
        return False
