"""Lines of a setup file, checked by the API's own shapes: same fields, same limits, same guards, same sentences."""

from collections.abc import Iterator
from datetime import timedelta
from typing import IO, Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from rest_framework import exceptions, serializers

from deliveries.api.endpoints import NewEndpointIn, OwnSecret
from deliveries.moving.lines import ConsumerLine, EndpointLine, EventTypeLine, Line, LineKind, LineRefused, Mistake
from subscriptions import consumers, ids
from subscriptions.api.consumers import ConsumerIn
from subscriptions.api.event_types import EventTypeIn
from subscriptions.api.fields import Text
from subscriptions.api.known_names import names_of, unknown_fields
from subscriptions.api.parsing import loads
from subscriptions.api.problems import Problem, as_problem
from subscriptions.models import EndpointStatus
from subscriptions.secrets.own_secrets import UnfitSecret, check_secret
from subscriptions.signing.ready_made import READY_MADE
from subscriptions.signing.recipe import Recipe

# More than anybody has; a file that goes on for ever ends here. Names are remembered: about 0.2 KB for each line.
MOST_LINES = 1_000_000
# An older secret signs beside the new one for a week at most, as after any rotation.
_ANY_SECRET = Recipe(signed="{body}")
_LONGEST_OVERLAP = timedelta(days=7)
_ENDPOINT_UID_RULE = "Letters, digits and . _ : @ ~ + - only, starting with a letter or digit, and no id of ours."


class EventTypeShape(EventTypeIn):
    why = None  # type: ignore[assignment]


class ConsumerShape(ConsumerIn):
    why = None  # type: ignore[assignment]
    id = Text(required=False, max_length=30)


class EndpointShape(NewEndpointIn):
    why = None  # type: ignore[assignment]
    id = Text(required=False, max_length=29)
    uid = Text(required=False, max_length=255)
    consumer = Text(max_length=255)
    status = serializers.ChoiceField(choices=EndpointStatus.values, required=False, default=EndpointStatus.ACTIVE)
    previous_secret = OwnSecret()
    previous_secret_expires_at = serializers.DateTimeField(required=False)

    def validate_uid(self, uid: str) -> str:
        if not (consumers.is_uid(uid) or uid.startswith("con_")) or ids.parse("ep", uid) is not None:
            raise serializers.ValidationError(_ENDPOINT_UID_RULE)
        return uid


_SHAPES: dict[str, type[serializers.Serializer[Any]]] = {
    LineKind.EVENT_TYPE: EventTypeShape,
    LineKind.CONSUMER: ConsumerShape,
    LineKind.ENDPOINT: EndpointShape,
}


def read_lines(source: IO[bytes]) -> Iterator[tuple[int, Line | LineRefused]]:
    """Each line by its number. Blank ones are passed over; none is kept in memory beyond its turn."""
    longest = settings.MAX_BODY_BYTES
    for number in range(1, MOST_LINES + 1):
        raw = source.readline(longest + 1)
        if not raw:
            return
        if len(raw) > longest and not raw.endswith(b"\n"):
            _pass_over(source)
            yield number, LineRefused(Mistake("", f"The line is longer than {longest // 1024} KiB."))
        elif not raw.isspace():
            yield number, _line_or_refusal(raw, number)
    if source.readline(1):
        yield MOST_LINES + 1, LineRefused(Mistake("", f"A file has at most {MOST_LINES:,} lines. Split it."))


def _pass_over(source: IO[bytes]) -> None:
    """The rest of a line that is too long."""
    while (part := source.readline(64 * 1024)) and not part.endswith(b"\n"):
        pass


def _line_or_refusal(raw: bytes, number: int) -> Line | LineRefused:
    try:
        return read_line(raw, number)
    except LineRefused as refused:
        return refused


def read_line(raw: bytes, number: int) -> Line:
    """LineRefused says all that is wrong with it, as far as can be told without the database."""
    try:
        body = loads(raw)
    except Problem as problem:
        raise LineRefused(Mistake("", problem.detail.replace("The body", "The line"))) from None
    if not isinstance(body, dict):
        raise LineRefused(Mistake("", "A line is a JSON object."))
    kind = body.pop("kind", None)
    if not isinstance(kind, str) or kind not in _SHAPES:
        raise LineRefused(Mistake("/kind", f"One of {', '.join(_SHAPES)}."))
    fields = _checked(_SHAPES[kind], body)
    match LineKind(kind):
        case LineKind.EVENT_TYPE:
            return EventTypeLine(number=number, name=fields["name"], fields=fields)
        case LineKind.CONSUMER:
            return _consumer(number, fields)
        case LineKind.ENDPOINT:
            return _endpoint(number, fields)


def _checked(shape: type[serializers.Serializer[Any]], body: dict[str, Any]) -> dict[str, Any]:
    if problem := unknown_fields(body, known=names_of(shape)):
        raise _refused(problem)
    checked = shape(data=body)
    try:
        checked.is_valid(raise_exception=True)
    except exceptions.ValidationError as error:
        raise _refused(as_problem(error)) from None
    return dict(checked.validated_data)


def _refused(problem: Problem | None) -> LineRefused:
    errors = problem.errors if problem else []
    return LineRefused(*(Mistake(error["pointer"], error["detail"]) for error in errors))


def _consumer(number: int, fields: dict[str, Any]) -> ConsumerLine:
    own_id, uid = _id("con", fields), fields.pop("uid", None)
    if own_id is None and uid is None:
        raise LineRefused(Mistake("/uid", "Say what it is called: by that, the next import finds it."))
    return ConsumerLine(number=number, id=own_id, uid=uid, fields=fields)


def _endpoint(number: int, fields: dict[str, Any]) -> EndpointLine:
    own_id, uid = _id("ep", fields), fields.pop("uid", None)
    if own_id is None and uid is None:
        raise LineRefused(Mistake("/uid", "Say what it is called: by that, the next import finds it."))
    previous, expires_at = fields.pop("previous_secret", None), fields.pop("previous_secret_expires_at", None)
    if (previous is None) != (expires_at is None):
        raise LineRefused(Mistake("/previous_secret", "It comes with `previous_secret_expires_at`, or not at all."))
    if expires_at is not None and expires_at > timezone.now() + _LONGEST_OVERLAP:
        raise LineRefused(Mistake("/previous_secret_expires_at", "At most seven days ahead."))
    # Operators' profiles are in the database, which looks at their secrets later.
    recipe = READY_MADE.get(fields.get("signature_scheme", settings.DELIVERY_SIGNATURE_SCHEME), _ANY_SECRET)
    for name, secret in (("secret", fields.get("secret")), ("previous_secret", previous)):
        _check_secret(name, secret, recipe)
    if previous is not None and "secret" not in fields:
        raise LineRefused(Mistake("/secret", "An older secret signs beside one that the line gives."))
    is_over = expires_at is not None and expires_at <= timezone.now()
    return EndpointLine(
        number=number, consumer=fields.pop("consumer"), id=own_id, uid=uid, status=fields.pop("status"),
        previous_secret=None if is_over else previous,
        previous_secret_expires_at=None if is_over else expires_at, fields=fields,
    )  # fmt: skip


def _check_secret(name: str, secret: str | None, recipe: Recipe) -> None:
    try:
        if secret is not None:
            check_secret(secret, recipe=recipe)
    except UnfitSecret as unfit:
        raise LineRefused(Mistake(f"/{name}", str(unfit))) from None


def _id(prefix: str, fields: dict[str, Any]) -> UUID | None:
    """What it is called in the system that it was exported from. Lists sort by it, so it is one that we could make."""
    given = fields.pop("id", None)
    if given is None:
        return None
    found = ids.parse(prefix, given)
    if found is None or found.version != 7 or ids.made_at(found) > timezone.now() + timedelta(days=1):
        raise LineRefused(Mistake("/id", f"No id of ours (`{prefix}_…`). Your own names are `uid`."))
    return found
