"""What of an endpoint or a consumer is not as a line says. Fields that the line does not give do not count."""

from datetime import datetime

from deliveries.moving.lines import ConsumerLine, EndpointLine
from subscriptions.actions.changes import differing
from subscriptions.endpoints import headers_of, secrets_of
from subscriptions.models import Consumer, Endpoint

# An import never replaces a secret: whoever rotated it here since would be cut off. It says that they differ.
SECRETS = ("secret", "previous_secret")


def of_consumer(consumer: Consumer, line: ConsumerLine) -> list[str]:
    names = {} if line.uid is None else {"uid": line.uid}
    return differing(consumer, {**names, **line.fields})


def of_endpoint(endpoint: Endpoint, line: EndpointLine, *, now: datetime) -> list[str]:
    """`VaultError` where its secrets cannot be opened."""
    plain = {name: value for name, value in line.fields.items() if name not in ("headers", *SECRETS)}
    names = {} if line.uid is None else {"uid": line.uid}
    found = differing(endpoint, {**names, **plain})
    if "headers" in line.fields and line.fields["headers"] != headers_of(endpoint):
        found.append("headers")
    if "secret" in line.fields:
        given = (line.fields["secret"], line.previous_secret)
        kept = secrets_of(endpoint, now=now)
        found += [name for name, mine, theirs in zip(SECRETS, kept, given, strict=True) if theirs and mine != theirs]
    return found
