"""How much work the data of one request may ask of the validator, counted before it is asked.

cost.py bounds the visits of one value. Most schemas need a few, and their data is never counted. Where a schema
may need many, an event of many values would hold the interpreter for a second, and a batch for half a minute: so its
values are counted first, and what would take too long is refused. A visit takes about 7 ns.
"""

from typing import Any

from subscriptions.schemas.compiled import Validator

# A schema of at most so many visits per value is cheap whatever the data.
CHEAP_VISITS = 50
# Of one event, which is checked in one go (about 0.15 s), and of all events of a request.
MAX_EVENT_VISITS = 20_000_000
MAX_REQUEST_VISITS = 10 * MAX_EVENT_VISITS


class Work:
    """What is left of a request's visits. Made for each request, asked before each of its events is checked."""

    def __init__(self) -> None:
        self._left = MAX_REQUEST_VISITS

    def allows(self, validator: Validator, data: Any) -> bool:
        if validator.visits <= CHEAP_VISITS:
            return True
        most = min(MAX_EVENT_VISITS, self._left) // validator.visits
        count = values_in(data, most=most)
        if count > most:
            return False
        self._left -= count * validator.visits
        return True


def values_in(data: Any, *, most: int) -> int:
    """The values of some data, itself among them. Stops counting beyond `most`."""
    count, waiting = 1, [data]
    while waiting and count <= most:
        value = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(inner)
        waiting += [each for each in inner if isinstance(each, dict | list)]
    return count
