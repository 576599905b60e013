"""The receiver kit: verify what arrives, run the work once for each event, answer fast.

    store = DbApiStore(lambda: sqlite3.connect("receipts.sqlite3"))
    receiver = Receiver(secrets, store=store, work=lambda event, transaction: ship(event, transaction))

`webhooks_client.receive.adapters` puts a receiver into Django, Flask, FastAPI or Starlette. Other stores are in
`webhooks_client.receive.sqlalchemy` and `webhooks_client.django.receipts`; `RedisFront` stands before any of them.
"""

from webhooks_client.receive.counters import Counters
from webhooks_client.receive.dbapi import DbApiStore
from webhooks_client.receive.event import Event, key_of_object, key_of_payload
from webhooks_client.receive.follow import FeedListener, follow
from webhooks_client.receive.hand_over import Inbox, to_celery, to_rq
from webhooks_client.receive.positions import FilePositions, Positions, RedisPositions
from webhooks_client.receive.receiver import Answer, Receiver
from webhooks_client.receive.redis import RedisFront
from webhooks_client.receive.sequence import Gap, SequenceGuard, missing_from
from webhooks_client.receive.store import RETENTION_SECONDS, EndedTransaction, Outcome, Store
from webhooks_client.receive.verify import VerificationError, sign, verify

__all__ = [
    "RETENTION_SECONDS",
    "Answer",
    "Counters",
    "DbApiStore",
    "EndedTransaction",
    "Event",
    "FeedListener",
    "FilePositions",
    "Gap",
    "Inbox",
    "Outcome",
    "Positions",
    "Receiver",
    "RedisFront",
    "RedisPositions",
    "SequenceGuard",
    "Store",
    "VerificationError",
    "follow",
    "key_of_object",
    "key_of_payload",
    "missing_from",
    "sign",
    "to_celery",
    "to_rq",
    "verify",
]
