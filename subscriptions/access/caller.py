"""Who is calling: what every layer below the front door is told of a valid key."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: what a valid key says about a request."""

    key_id: UUID
    role: str
    consumer_id: UUID | None
    # Whose requests these are: limits and idempotency keys are the owner's, however many keys it has.
    owner: str
    scopes: frozenset[str]

    # Django REST framework asks this of whatever stands in for a user.
    is_authenticated = True
