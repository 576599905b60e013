"""Which deliveries: the one filter behind lists, counts, groups, previews and replay jobs. What it means in SQL is said
once, in source.py."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from deliveries.models import DeliveryState


@dataclass(frozen=True, slots=True)
class Filter:
    """Which deliveries. All of it must hold."""

    # None for any.
    state: str | None = DeliveryState.DEAD
    consumer_id: UUID | None = None
    endpoint_id: UUID | None = None
    event_type: str | None = None
    dead_reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    # How the last attempt ended: `http_503`, `connect_failed`, …
    error_kind: str | None = None
    event_id: UUID | None = None
    ordering_key: str | None = None
    # These and no others; None for all that match.
    delivery_ids: tuple[UUID, ...] | None = None

    def stored(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "consumer_id": self.consumer_id and str(self.consumer_id),
            "endpoint_id": self.endpoint_id and str(self.endpoint_id),
            "event_type": self.event_type,
            "dead_reason": self.dead_reason,
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "error_kind": self.error_kind,
            "event_id": self.event_id and str(self.event_id),
            "ordering_key": self.ordering_key,
            "delivery_ids": None if self.delivery_ids is None else [str(each) for each in self.delivery_ids],
        }

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "Filter":
        return cls(
            state=stored["state"],
            consumer_id=stored["consumer_id"] and UUID(stored["consumer_id"]),
            endpoint_id=stored["endpoint_id"] and UUID(stored["endpoint_id"]),
            event_type=stored["event_type"],
            dead_reason=stored["dead_reason"],
            since=stored["since"] and datetime.fromisoformat(stored["since"]),
            until=stored["until"] and datetime.fromisoformat(stored["until"]),
            error_kind=stored["error_kind"],
            event_id=stored["event_id"] and UUID(stored["event_id"]),
            ordering_key=stored["ordering_key"],
            delivery_ids=_uuids(stored["delivery_ids"]),
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether it says more than a state. A slip must not mean everything, so a replay asks this."""
        return any(
            value is not None
            for value in (
                self.consumer_id, self.endpoint_id, self.event_type, self.dead_reason, self.since, self.until,
                self.error_kind, self.event_id, self.ordering_key, self.delivery_ids,
            )
        )  # fmt: skip


def _uuids(texts: list[str] | None) -> tuple[UUID, ...] | None:
    return None if texts is None else tuple(UUID(text) for text in texts)
