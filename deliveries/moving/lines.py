"""What stands in one line of a setup file, and what became of it. Values between reading and importing."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class LineKind(StrEnum):
    EVENT_TYPE = "event_type"
    CONSUMER = "consumer"
    ENDPOINT = "endpoint"


class LineOutcome(StrEnum):
    CREATED = "created"
    UNCHANGED = "unchanged"  # it is here, and as the line says
    UPDATED = "updated"
    DIFFERENT = "different"  # it is here, not as the line says, and was left alone
    DELETED = "deleted here"  # it was here once; an import does not bring it back
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Mistake:
    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


class LineRefused(Exception):
    """This line cannot be imported. No message holds a secret."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__("; ".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class EventTypeLine:
    number: int
    name: str
    fields: dict[str, Any]
    kind: LineKind = LineKind.EVENT_TYPE


@dataclass(frozen=True, slots=True)
class ConsumerLine:
    number: int
    # At least one of the two.
    id: UUID | None
    uid: str | None
    fields: dict[str, Any]
    kind: LineKind = LineKind.CONSUMER


@dataclass(frozen=True, slots=True)
class EndpointLine:
    number: int
    # As written: a uid, or an id of ours.
    consumer: str
    # At least one of the two.
    id: UUID | None
    uid: str | None
    # Fields, secrets and headers are kept out of what a traceback or a log would show.
    fields: dict[str, Any] = field(repr=False)
    # How it begins; an endpoint that is here already has a life of its own.
    status: str
    previous_secret: str | None = field(repr=False)
    previous_secret_expires_at: datetime | None
    kind: LineKind = LineKind.ENDPOINT


Line = EventTypeLine | ConsumerLine | EndpointLine


@dataclass(frozen=True, slots=True)
class Result:
    number: int
    kind: LineKind | None
    outcome: LineOutcome
    mistakes: tuple[Mistake, ...] = ()
    # The names of fields that differ, or were changed.
    fields: tuple[str, ...] = ()
    # A secret was made for it, because the line has none: nobody has seen it.
    has_new_secret: bool = False
