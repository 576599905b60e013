"""Scopes: the plain names of what a key may do. Its role says which it may have, and which it has when none are named.

Each API view declares one scope per method, beside its roles (`subscriptions/api/authentication.py` checks both). A
consumer's scopes reach its own consumer's things and nothing else, whatever their names.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache

from subscriptions.models import Role

# Plain strings: a look into a set of them, as each emit does, costs a few dozen nanoseconds.
EVENTS_WRITE = "events:write"  # emit, one event or a batch
EVENTS_READ = "events:read"  # events and the catch-up feed
DELIVERIES_READ = "deliveries:read"  # deliveries and replay jobs: which, their state, how many attempts
ATTEMPTS_READ = "attempts:read"  # what was sent and what came back: headers, bodies, errors
REPLAYS_WRITE = "replays:write"  # replay one delivery or many, cancel a replay
ENDPOINTS_READ = "endpoints:read"
ENDPOINTS_WRITE = "endpoints:write"  # create, change, pause, resume, delete; a new one's secret is in the answer
ENDPOINTS_TEST = "endpoints:test"  # test events and check-ups
SECRETS_ROTATE = "secrets:rotate"  # rotate an endpoint's secret and receive the new one
CONSUMERS_READ = "consumers:read"
CONSUMERS_WRITE = "consumers:write"
PORTAL_LINKS_WRITE = "portal_links:write"
KEYS_READ = "keys:read"
KEYS_WRITE = "keys:write"  # issue, rotate and revoke a consumer's keys
EVENT_TYPES_READ = "event_types:read"
EVENT_TYPES_WRITE = "event_types:write"
SIGNATURE_PROFILES_WRITE = "signature_profiles:write"  # how requests are signed; reading it needs `endpoints:read`
AUDIT_READ = "audit:read"
METRICS_READ = "metrics:read"  # /metrics
# No scope, but what a view names instead where every key may.
ANY = "any"

ALL = frozenset({
    EVENTS_WRITE, EVENTS_READ, DELIVERIES_READ, ATTEMPTS_READ, REPLAYS_WRITE, ENDPOINTS_READ, ENDPOINTS_WRITE,
    ENDPOINTS_TEST, SECRETS_ROTATE, CONSUMERS_READ, CONSUMERS_WRITE, PORTAL_LINKS_WRITE, KEYS_READ, KEYS_WRITE,
    EVENT_TYPES_READ, EVENT_TYPES_WRITE, SIGNATURE_PROFILES_WRITE, AUDIT_READ, METRICS_READ,
})  # fmt: skip

# What a key of this role may have at all.
POSSIBLE: dict[str, frozenset[str]] = {
    Role.OPERATOR.value: ALL,
    Role.PRODUCER.value: ALL - {SIGNATURE_PROFILES_WRITE, AUDIT_READ, METRICS_READ},
    Role.CONSUMER.value: frozenset({
        EVENTS_READ, DELIVERIES_READ, ATTEMPTS_READ, REPLAYS_WRITE, ENDPOINTS_READ, ENDPOINTS_WRITE, ENDPOINTS_TEST,
        SECRETS_ROTATE, CONSUMERS_READ, KEYS_READ, KEYS_WRITE, EVENT_TYPES_READ,
    }),
}  # fmt: skip
# What it has when it was issued without naming any.
DEFAULT: dict[str, frozenset[str]] = {
    **POSSIBLE,
    # What consumers sent back, their new secrets and their replays are theirs unless an operator says otherwise.
    Role.PRODUCER.value: POSSIBLE[Role.PRODUCER.value] - {ATTEMPTS_READ, SECRETS_ROTATE, REPLAYS_WRITE},
}
# Written among the scopes of a new key, it stands for its role's default ones: a way to add to them.
DEFAULT_NAME = "default"


class ScopeRefused(ValueError):
    """A name that is no scope, or none for this role."""

    def __init__(self, detail: str, *, index: int) -> None:
        super().__init__(detail)
        self.index = index


def chosen(role: str, names: Iterable[str] | None) -> list[str] | None:
    """The scopes to store for a new key of this role; None for the default ones, whatever they become."""
    if names is None:
        return None
    scopes: set[str] = set()
    for index, name in enumerate(names):
        if name == DEFAULT_NAME:
            scopes |= DEFAULT[role]
        elif name not in ALL:
            raise ScopeRefused(f"There is no scope {name!r}. There are {', '.join(sorted(ALL))}.", index=index)
        elif name not in POSSIBLE[role]:
            raise ScopeRefused(f"A {role}'s key cannot have the scope {name}.", index=index)
        else:
            scopes.add(name)
    return sorted(scopes)


def held(role: str, stored: Collection[str] | None) -> frozenset[str]:
    """What a key may do, by its row."""
    return DEFAULT[role] if stored is None else _held(role, tuple(stored))


@lru_cache(maxsize=1024)
def _held(role: str, stored: tuple[str, ...]) -> frozenset[str]:
    return POSSIBLE[role].intersection(stored)


def grantable(role: str, scopes: frozenset[str]) -> frozenset[str]:
    """What a key may give to a consumer's key that it makes.

    A consumer's key gives what it has. Producers and operators set consumers up, and what a consumer may do with its
    own things is not theirs to have first: their `keys:write` gives all of it, as a link to the portal does.
    """
    if KEYS_WRITE not in scopes:
        return frozenset()
    return scopes if role == Role.CONSUMER else POSSIBLE[Role.CONSUMER.value]
