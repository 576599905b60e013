"""Both halves of a webhook.

Producers: `Client` and `AsyncClient` emit events; `webhooks_client.django` has an outbox that commits with your rows.
Consumers: `webhooks_client.receive` verifies what arrives and runs your work once for each event.
"""

from webhooks_client.batches import Result
from webhooks_client.calls import FeedPage
from webhooks_client.client import AsyncClient, Client
from webhooks_client.errors import (
    Conflict,
    Invalid,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RateLimited,
    Refused,
    Unavailable,
    Unreachable,
    WebhooksError,
)
from webhooks_client.protocol import Retries

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "FeedPage",
    "Invalid",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "RateLimited",
    "Refused",
    "Result",
    "Retries",
    "Unavailable",
    "Unreachable",
    "WebhooksError",
]
