"""One-time codes of an authenticator app (TOTP, RFC 6238), and recovery codes for the day the phone is gone.

The secret is sealed like every other. A code counts once: accepting it is a guarded update of the last time step.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Iterator

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor import InvalidToken
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from deliveries.console.accounts.models import SecondFactor
from subscriptions.secrets.vault import Vault, vault

DIGITS, STEP_SECONDS = 6, 30
RECOVERY_CODES = 10
# Clocks of phones differ: the codes before and after this moment's count as well.
_STEPS = (0, -1, 1)
_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # without those that look alike

USE_RECOVERY_CODE = """
    UPDATE console_accounts_secondfactor SET recovery_hashes = array_remove(recovery_hashes, %(hash)s)
    WHERE user_id = %(user_id)s AND %(hash)s = ANY (recovery_hashes)
"""


def of(user: User) -> SecondFactor | None:
    """The user's second factor, if it has been confirmed."""
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).first()


def begin(user: User) -> SecondFactor:
    """A new secret that counts once its first code is confirmed. One that is confirmed stays as it is."""
    secret = base64.b32encode(secrets.token_bytes(20)).decode()
    SecondFactor.objects.filter(user=user, confirmed_at__isnull=True).delete()
    found, _ = SecondFactor.objects.get_or_create(
        user=user, defaults={"secret_encrypted": vault().seal(secret, belongs_to=_owner(user))}
    )
    return found


def confirm(user: User, code: str, *, now: float | None = None) -> list[str] | None:
    """The recovery codes, shown this once, if the code is right."""
    pending = SecondFactor.objects.filter(user=user, confirmed_at__isnull=True).first()
    step = _step_of(pending, code, now=now) if pending else None
    if step is None:
        return None
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(10)) for _ in range(RECOVERY_CODES)]
    confirmed = SecondFactor.objects.filter(user=user, confirmed_at__isnull=True).update(
        confirmed_at=timezone.now(), last_step=step, recovery_hashes=[_hash(each) for each in codes]
    )
    return codes if confirmed else None


def check(user: User, code: str, *, now: float | None = None) -> bool:
    """Whether this is a code of the user's app, or a recovery code. True once for each."""
    factor = of(user)
    if factor is None:
        return False
    step = _step_of(factor, code, now=now)
    if step is not None:
        return SecondFactor.objects.filter(user=user, last_step__lt=step).update(last_step=step) == 1
    with connection.cursor() as cursor:
        cursor.execute(USE_RECOVERY_CODE, {"user_id": user.pk, "hash": _hash(_plain(code).upper())})
        return bool(cursor.rowcount == 1)


def remove(user: User) -> bool:
    return SecondFactor.objects.filter(user=user).delete()[0] > 0


def reencrypt_each(vault: Vault) -> Iterator[bool]:
    """Seals every secret under the vault's first key: whether each changed."""
    for user_id in SecondFactor.objects.order_by("user_id").values_list("user_id", flat=True):
        with transaction.atomic():
            factor = SecondFactor.objects.select_for_update().filter(user_id=user_id).first()
            is_old = factor is not None and not vault.is_current(bytes(factor.secret_encrypted))
            if factor is not None and is_old:
                sealed = vault.seal(secret_of(factor), belongs_to=_owner(factor.user))
                SecondFactor.objects.filter(user_id=user_id).update(secret_encrypted=sealed)
        yield is_old


def secret_of(factor: SecondFactor) -> str:
    """Base32, as people type it into their app. Only shown while the factor is not confirmed."""
    return vault().open(bytes(factor.secret_encrypted), belongs_to=_owner(factor.user))


def setup_uri(factor: SecondFactor, *, issuer: str) -> str:
    """What the QR code holds."""
    return _totp(secret_of(factor)).get_provisioning_uri(factor.user.get_username(), issuer)


def _step_of(factor: SecondFactor, code: str, *, now: float | None) -> int | None:
    """The time step whose code this is."""
    at, given = (time.time() if now is None else now), _plain(code)
    if not (given.isascii() and given.isdigit() and len(given) == DIGITS):
        return None
    totp = _totp(secret_of(factor))
    for offset in _STEPS:
        moment = int(at) + offset * STEP_SECONDS
        try:
            totp.verify(given.encode(), moment)
        except InvalidToken:
            continue
        return moment // STEP_SECONDS
    return None


def _totp(secret: str) -> TOTP:
    # SHA-1 is what authenticator apps use; as an HMAC it is sound.
    return TOTP(base64.b32decode(secret), DIGITS, SHA1(), STEP_SECONDS)  # noqa: S303


def _owner(user: User) -> str:
    return f"console_accounts_secondfactor.secret_encrypted {user.pk}"


def _plain(code: str) -> str:
    return "".join(code.split()).replace("-", "")


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="replace")).digest()
