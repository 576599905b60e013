"""Lines of a setup file become rows: a batch of lines in one transaction, an audit entry for each row made or changed.

An import adds what is missing. What is here already stays as it is unless `update` is asked for, and its secrets stay
in any case. So an import that was interrupted is run again, and does what is left to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from deliveries.actions import endpoints as endpoint_actions
from deliveries.moving import differences
from deliveries.moving.lines import (
    ConsumerLine,
    EndpointLine,
    EventTypeLine,
    Line,
    LineOutcome,
    LineRefused,
    Mistake,
    Result,
)
from subscriptions import endpoints, event_types, ids
from subscriptions.actions import consumers as consumer_actions
from subscriptions.actions import endpoints as new_endpoints
from subscriptions.actions import event_types as type_actions
from subscriptions.actions.changes import event_type_changes
from subscriptions.audit import Actor
from subscriptions.consumers import UidTaken
from subscriptions.endpoints import Room, TooManyEndpoints, TooManyNewEndpoints
from subscriptions.models import Consumer, Endpoint, EndpointStatus, EventType
from subscriptions.secrets.endpoint_secrets import seal
from subscriptions.secrets.own_secrets import Unfit, check_secret
from subscriptions.secrets.vault import vault
from subscriptions.signing import schemes

_AT_THE_SAME_MOMENT = "Somebody else makes the same at this moment. Run the import again."


@dataclass
class Earlier:
    """What the lines before this batch have said: names, so that none stands twice; and in a dry run, which writes
    nothing, the consumers and endpoints that they would have made."""

    names: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    rooms: dict[UUID, Room] = field(default_factory=dict)


def import_batch(
    lines: Sequence[Line], earlier: Earlier, *, update: bool, dry_run: bool, actor: Actor, why: str
) -> list[Result]:
    """One result for each line. A line that is refused changes nothing, and keeps no other from being imported."""
    batch = _Batch(earlier, update=update, dry_run=dry_run, actor=actor, why=why)
    try:
        with transaction.atomic():
            results = batch.run(lines)
    except IntegrityError:
        # A name was taken between our look and our write. By itself, each line finds out whether it was its name.
        if len(lines) == 1:
            mistake = Mistake("", _AT_THE_SAME_MOMENT)
            return [Result(lines[0].number, lines[0].kind, LineOutcome.REFUSED, mistakes=(mistake,))]
        options = {"update": update, "dry_run": dry_run}
        return [result for line in lines for result in import_batch([line], earlier, **options, actor=actor, why=why)]
    batch.remember()
    return results


class _Batch:
    """One batch: what it found, what it makes. Looks everything up at once, decides line by line in their order, and
    writes what is new at the end."""

    def __init__(self, earlier: Earlier, *, update: bool, dry_run: bool, actor: Actor, why: str) -> None:
        self._earlier, self._update, self._dry_run, self._actor, self._why = earlier, update, dry_run, actor, why
        self._names: dict[str, int] = {}
        self._new_consumers: list[Consumer] = []
        self._new_endpoints: list[Endpoint] = []

    def run(self, lines: Sequence[Line]) -> list[Result]:
        self._look_up(lines)
        results = [self._result(line) for line in lines]
        if not self._dry_run:
            consumer_actions.create_many(self._new_consumers, actor=self._actor, why=self._why)
            new_endpoints.create_many(self._new_endpoints, actor=self._actor, why=self._why)
        return results

    def remember(self) -> None:
        """After the commit: what this batch said, for the next ones."""
        self._earlier.names.update(self._names)
        if self._dry_run:
            for consumer in self._new_consumers:
                self._earlier.consumers.update(dict.fromkeys(_names_of(consumer), consumer))
            self._earlier.rooms.update(self._rooms)

    def _look_up(self, lines: Sequence[Line]) -> None:
        self._types = _types([line.name for line in lines if isinstance(line, EventTypeLine)])
        found = _consumers(lines)
        self._consumers = self._earlier.consumers | found
        of_endpoints = [line for line in lines if isinstance(line, EndpointLine)]
        wanted = {found[line.consumer].id for line in of_endpoints if line.consumer in found}
        if not self._dry_run:
            endpoints.lock_consumers(wanted)
        self._rooms = endpoints.rooms(wanted) | self._earlier.rooms
        self._endpoints = _endpoints(of_endpoints, wanted)

    def _result(self, line: Line) -> Result:
        try:
            match line:
                case EventTypeLine():
                    return self._event_type(line)
                case ConsumerLine():
                    return self._consumer(line)
                case EndpointLine():
                    return self._endpoint(line)
        except LineRefused as refused:
            return Result(line.number, line.kind, LineOutcome.REFUSED, mistakes=refused.mistakes)

    # ── Event types: few, so each by itself ──────────────────────────────────────────────────────────────────────────

    def _event_type(self, line: EventTypeLine) -> Result:
        self._say_once(line, f"event_type {line.name}")
        found = self._types.get(line.name)
        is_new = found is None or found.declared_at is None
        changed = [] if found is None else event_type_changes(found, line.fields)
        try:
            event_types.check_schemas(line.fields.get("versions", []))
            if is_new and not self._dry_run:
                self._declare(line)
            elif found is not None and changed and self._may_write:
                type_actions.update(found, line.fields, actor=self._actor, why=self._why)
        except event_types.SchemaInvalid as error:
            raise LineRefused(Mistake(error.pointer, str(error))) from None
        except event_types.NameTaken:
            raise LineRefused(Mistake("/name", _AT_THE_SAME_MOMENT)) from None
        return Result(line.number, line.kind, LineOutcome.CREATED) if is_new else self._told(line, changed)

    def _declare(self, line: EventTypeLine) -> None:
        fields = {name: value for name, value in line.fields.items() if name not in ("deprecated", "archived")}
        with transaction.atomic():
            made = type_actions.create(**fields, actor=self._actor, why=self._why)
            if line.fields.get("deprecated") or line.fields.get("archived"):
                type_actions.update(made, line.fields, actor=self._actor, why=self._why)

    # ── Consumers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _consumer(self, line: ConsumerLine) -> Result:
        names = [name for name in (line.uid, line.id and ids.show("con", line.id)) if name]
        self._say_once(line, *(f"consumer {name}" for name in names))
        found = next((self._consumers[name] for name in names if name in self._consumers), None)
        if found is None:
            made = Consumer(id=line.id or ids.new_uuid(), uid=line.uid, **line.fields)
            self._new_consumers.append(made)
            self._consumers.update(dict.fromkeys(_names_of(made), made))
            self._rooms[made.id] = Room()
            return Result(line.number, line.kind, LineOutcome.CREATED)
        if found.deleted_at is not None:
            return Result(line.number, line.kind, LineOutcome.DELETED)
        changed = differences.of_consumer(found, line)
        if changed and self._may_write:
            fields = {**line.fields, **({"uid": line.uid} if line.uid else {})}
            try:
                consumer_actions.update(found, fields, actor=self._actor, why=self._why)
            except UidTaken:
                raise LineRefused(Mistake("/uid", "Another consumer has this uid.")) from None
            self._consumers.update(dict.fromkeys(_names_of(found), found))
        return self._told(line, changed)

    # ── Endpoints ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _endpoint(self, line: EndpointLine) -> Result:
        consumer = self._consumers.get(line.consumer)
        if consumer is None or consumer.deleted_at is not None:
            missing = f"There is no consumer {line.consumer!r}. Its line stands before those of its endpoints."
            raise LineRefused(Mistake("/consumer", missing))
        names = [f"{consumer.id} {line.uid}"] if line.uid else []
        names += [str(line.id)] if line.id else []
        self._say_once(line, *(f"endpoint {name}" for name in names))
        found = next((self._endpoints[name] for name in names if name in self._endpoints), None)
        if found is None:
            self._new_endpoints.append(self._new_endpoint(line, consumer))
            return Result(line.number, line.kind, LineOutcome.CREATED, has_new_secret="secret" not in line.fields)
        if found.consumer_id != consumer.id:
            raise LineRefused(Mistake("/id", "An endpoint of another consumer has this id."))
        if found.deleted_at is not None:
            return Result(line.number, line.kind, LineOutcome.DELETED)
        return self._existing(line, found)

    def _new_endpoint(self, line: EndpointLine, consumer: Consumer) -> Endpoint:
        try:
            endpoint, _ = endpoints.new_row(
                consumer=consumer, endpoint_id=line.id, uid=line.uid, status=line.status, **line.fields
            )
        except Unfit as unfit:
            raise LineRefused(Mistake(unfit.pointer or "/secret", str(unfit))) from None
        if line.previous_secret is not None:
            try:
                check_secret(line.previous_secret, recipe=schemes.recipe_of(endpoint.signature_scheme))
            except Unfit as unfit:
                raise LineRefused(Mistake("/previous_secret", str(unfit))) from None
        try:
            self._rooms[consumer.id].take()
        except TooManyEndpoints:
            raise LineRefused(
                Mistake("/consumer", "It has as many endpoints as it may have (MAX_ENDPOINTS_PER_CONSUMER).")
            ) from None
        except TooManyNewEndpoints:
            raise LineRefused(
                Mistake("/consumer", "It has as many new endpoints as it may within a day (MAX_NEW_ENDPOINTS_PER_DAY).")
            ) from None
        if line.status != EndpointStatus.ACTIVE:
            endpoint.disabled_reason = f"imported as {line.status}"
        if line.previous_secret is not None:
            endpoint.previous_secret_encrypted = seal(
                vault(), line.previous_secret, endpoint_id=endpoint.id, column="previous_secret_encrypted"
            )
            endpoint.previous_secret_expires_at = line.previous_secret_expires_at
        return endpoint

    def _existing(self, line: EndpointLine, found: Endpoint) -> Result:
        changed = differences.of_endpoint(found, line, now=timezone.now())
        wanted = [name for name in changed if name not in differences.SECRETS]
        if wanted and self._may_write:
            fields = {**line.fields, "uid": line.uid}
            try:
                changes = {name: fields[name] for name in wanted}
                endpoint_actions.update(found, changes, actor=self._actor, why=self._why)
            except Unfit as unfit:
                raise LineRefused(Mistake(unfit.pointer or "/signature_scheme", str(unfit))) from None
        return self._told(line, changed)

    # ── What all kinds share ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _may_write(self) -> bool:
        return self._update and not self._dry_run

    def _say_once(self, line: Line, *names: str) -> None:
        for name in names:
            if (before := self._names.get(name) or self._earlier.names.get(name)) is not None:
                raise LineRefused(Mistake("", f"Line {before} names the same {line.kind}."))
        self._names.update(dict.fromkeys(names, line.number))

    def _told(self, line: Line, changed: list[str]) -> Result:
        """Of something that is here. A secret that differs is told of, and stays, also in an update."""
        left = [name for name in changed if name in differences.SECRETS] if self._update else changed
        outcome = LineOutcome.DIFFERENT if left else LineOutcome.UPDATED if changed else LineOutcome.UNCHANGED
        return Result(line.number, line.kind, outcome, fields=tuple(left or changed))


def _types(names: list[str]) -> dict[str, EventType]:
    return {found.name: found for found in EventType.objects.prefetch_related("versions").filter(name__in=names)}


def _consumers(lines: Sequence[Line]) -> dict[str, Consumer]:
    """By every name that these lines call one; deleted ones too, which have no uid any more."""
    named = {line.uid for line in lines if isinstance(line, ConsumerLine) and line.uid}
    named |= {line.consumer for line in lines if isinstance(line, EndpointLine)}
    uuids = {line.id for line in lines if isinstance(line, ConsumerLine) and line.id}
    uuids |= {uuid for name in named if (uuid := ids.parse("con", name))}
    found = Consumer.objects.filter(Q(uid__in=named) | Q(id__in=uuids))
    return {name: consumer for consumer in found for name in _names_of(consumer)}


def _names_of(consumer: Consumer) -> list[str]:
    return [consumer.public_id, *([consumer.uid] if consumer.uid else [])]


def _endpoints(lines: Sequence[EndpointLine], consumer_ids: set[UUID]) -> dict[str, Endpoint]:
    """By their consumer and uid, and by their id; deleted ones too."""
    uids, uuids = {line.uid for line in lines if line.uid}, {line.id for line in lines if line.id}
    found: dict[str, Endpoint] = {}
    for endpoint in Endpoint.objects.filter(Q(consumer_id__in=consumer_ids, uid__in=uids) | Q(id__in=uuids)):
        found[str(endpoint.id)] = endpoint
        if endpoint.uid:
            found[f"{endpoint.consumer_id} {endpoint.uid}"] = endpoint
    return found
