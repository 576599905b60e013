"""A limit on failed logins, by account and by address. Kept in PostgreSQL: a login needs that anyway.

A bucket holds so many failures and refills over a quarter of an hour. It is paid before the password is looked at, so
that guesses made at the same moment count too, and given back after a success. Names that do not exist have buckets
like any other, so a refusal says nothing about who has an account. A browser that has logged in to the account before
has a bucket of its own: a stranger who guesses cannot lock its owner out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.db import connection
from django.utils import timezone

from deliveries.console.accounts.models import LoginThrottle

WINDOW_SECONDS = 900

TAKE = """
    INSERT INTO console_accounts_loginthrottle AS bucket (bucket, whole_at)
    VALUES (%(bucket)s, now() + %(each)s * interval '1 second')
    ON CONFLICT (bucket) DO UPDATE SET whole_at = greatest(bucket.whole_at, now()) + %(each)s * interval '1 second'
    WHERE greatest(bucket.whole_at, now()) + %(each)s * interval '1 second' <= now() + %(window)s * interval '1 second'
    RETURNING bucket
"""
"""Takes one from a bucket; answers nothing where it is empty."""

GIVE_BACK = """
    UPDATE console_accounts_loginthrottle SET whole_at = whole_at - %(each)s * interval '1 second'
    WHERE bucket = %(bucket)s
"""


@dataclass(frozen=True, slots=True)
class Bucket:
    name: str
    failures: int

    @property
    def hash(self) -> bytes:
        return hashlib.sha256(self.name.encode(errors="replace")).digest()

    @property
    def seconds_each(self) -> float:
        return WINDOW_SECONDS / self.failures


def buckets(*, username: str, address: str, device: str | None) -> list[Bucket]:
    """What an attempt is counted under. `device`: the id of a browser that has logged in to this account before."""
    if device is not None:
        return [Bucket(f"device:{device}", settings.LOGIN_FAILURES_PER_ACCOUNT)]
    return [
        Bucket(f"address:{network_of(address)}", settings.LOGIN_FAILURES_PER_ADDRESS),
        Bucket(f"account:{username.casefold()}", settings.LOGIN_FAILURES_PER_ACCOUNT),
    ]


def take(wanted: Sequence[Bucket]) -> bool:
    """True if each of them had one left."""
    return all(_take(bucket) for bucket in wanted)


def give_back(wanted: Sequence[Bucket]) -> None:
    """A login that succeeded was no failure."""
    with connection.cursor() as cursor:
        for bucket in wanted:
            cursor.execute(GIVE_BACK, {"bucket": bucket.hash, "each": bucket.seconds_each})


def forget_old() -> int:
    return LoginThrottle.objects.filter(whole_at__lt=timezone.now()).delete()[0]


def _take(bucket: Bucket) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(TAKE, {"bucket": bucket.hash, "each": bucket.seconds_each, "window": WINDOW_SECONDS})
        return cursor.fetchone() is not None


def network_of(address: str) -> str:
    """The address; of IPv6 the /64, which is one customer's."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network(f"{parsed}/64", strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
