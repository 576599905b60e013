"""What a key may make: keys that reach no further than itself, end no later, and are not too many."""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from subscriptions.access import key_tree
from subscriptions.access.caller import Caller
from subscriptions.access.scopes import DEFAULT, grantable, held
from subscriptions.models import ApiKey, Consumer, Role

# How many keys a consumer may make within a day, for each that it may have at the same time.
_KEYS_PER_DAY = 10


class TooManyKeys(Exception):
    """The consumer has, or made, as many keys as this deployment allows."""


class NotWithinIssuer(Exception):
    """The key asked for would reach further than the one it is made with."""


class OutlivesIssuer(Exception):
    """The key asked for would end later than the one it is made with."""


def scopes_within(caller: Caller, role: Role, consumer: Consumer | None, wanted: list[str] | None) -> list[str] | None:
    """The new key's scopes. With a key, only keys of consumers are made: by a consumer's key those of its own."""
    if role is not Role.CONSUMER or consumer is None or caller.consumer_id not in (None, consumer.id):
        raise NotWithinIssuer("A key makes keys of consumers only, and a consumer's key those of its own consumer.")
    given = grantable(caller.role, caller.scopes)
    if wanted is None:
        return None if given == DEFAULT[role] else sorted(given)
    if missing := sorted(set(wanted) - given):
        raise NotWithinIssuer(f"This key does not have the scope {missing[0]} and cannot give it to another.")
    return wanted


def may_replace(caller: Caller, old: ApiKey) -> None:
    """Whoever rotates another's key receives the new one, and so could have made it."""
    issuer = key_tree.must_live(caller.key_id)
    scopes_within(caller, Role(old.role), old.consumer, sorted(held(old.role, old.scopes)))
    if issuer.expires_at is not None and (old.expires_at is None or old.expires_at > issuer.expires_at):
        raise NotWithinIssuer("The key you call with ends before the one it would rotate. Use one that lives as long.")


def no_later(wanted: datetime | None, limit: datetime | None) -> datetime | None:
    """A time that was not named is the issuer's own; a later one is refused, since it would not be kept."""
    if limit is not None and wanted is not None and wanted > limit:
        raise OutlivesIssuer
    return limit if wanted is None else wanted


def make_room(consumer: Consumer | None) -> None:
    """The lock makes the limits exact: two at the same moment count one after the other."""
    if consumer is None:
        return
    Consumer.objects.select_for_update(no_key=True).get(id=consumer.id)
    if key_tree.living().filter(consumer=consumer).count() >= settings.MAX_KEYS_PER_CONSUMER:
        raise TooManyKeys("This consumer has as many keys as it may have. Revoke one first.")
    # Keys that were revoked are kept for a while: making and revoking them in a loop must not fill the table.
    a_day_ago = timezone.now() - timedelta(days=1)
    made = ApiKey.objects.filter(consumer=consumer, created_at__gt=a_day_ago).count()
    if made >= settings.MAX_KEYS_PER_CONSUMER * _KEYS_PER_DAY:
        raise TooManyKeys("This consumer made as many keys within a day as it may. Try again tomorrow.")
