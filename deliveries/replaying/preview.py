"""What a replay job would take, per endpoint, before anybody starts it."""

from django.utils import timezone

from deliveries.browse.filter import Filter
from deliveries.browse.matched import Matched, matched
from deliveries.replaying.missed import Missed, missed_matched


def preview(wanted: Filter | Missed) -> Matched:
    return missed_matched(wanted, now=timezone.now()) if isinstance(wanted, Missed) else matched(wanted)
