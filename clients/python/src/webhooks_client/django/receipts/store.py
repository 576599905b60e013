"""Remember keys through Django's ORM, in the transaction in which the work writes its rows."""

from datetime import timedelta
from typing import Any

from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db.models import F
from django.utils import timezone

from webhooks_client.django.receipts.models import AppliedSequence, FeedPosition, Receipt
from webhooks_client.receive.store import RETENTION_SECONDS, EndedTransaction, Outcome, Work

_FORGET_AT_ONCE = 1000


class DjangoStore:
    """The work is called with None: the ORM knows its transaction. It may use `transaction.on_commit`."""

    def __init__(self, *, using: str = "default") -> None:
        self._using = using

    def run_once(self, key: str, work: Work) -> Outcome:
        with transaction.atomic(using=self._using):
            try:
                with transaction.atomic(using=self._using):
                    # A second call for this key waits here until the first one's transaction ends.
                    Receipt.objects.using(self._using).create(key=key, received_at=timezone.now())
            except IntegrityError:
                return "duplicate"
            work(None)
            if not self._is_kept(key):
                raise EndedTransaction
        return "new"

    def _is_kept(self, key: str) -> bool:
        """Whether the transaction holds the key still. After an error of the database that the work swallowed, Django
        would roll back at the end of the block without an error, and so would PostgreSQL."""
        try:
            return self.seen(key)
        except DatabaseError:
            return False

    def seen(self, key: str) -> bool:
        return Receipt.objects.using(self._using).filter(key=key).exists()

    def forget(self, *, older_than_seconds: float = RETENTION_SECONDS) -> int:
        old = Receipt.objects.using(self._using).filter(
            received_at__lt=timezone.now() - timedelta(seconds=older_than_seconds)
        )
        deleted = 0
        while keys := list(old.order_by("received_at").values_list("key", flat=True)[:_FORGET_AT_ONCE]):
            deleted += Receipt.objects.using(self._using).filter(key__in=keys).delete()[0]
        return deleted

    def applied(self, transaction: Any, ordering_key: str) -> int:
        rows = AppliedSequence.objects.using(self._using)
        # Taken even where nothing changes: the row is locked until the transaction ends.
        if not rows.filter(pk=ordering_key).update(applied=F("applied")):
            rows.get_or_create(pk=ordering_key, defaults={"applied": 0})
            rows.filter(pk=ordering_key).update(applied=F("applied"))
        return rows.get(pk=ordering_key).applied

    def set_applied(self, transaction: Any, ordering_key: str, sequence: int) -> None:
        AppliedSequence.objects.using(self._using).filter(pk=ordering_key).update(applied=sequence)

    def position(self, name: str) -> str | None:
        # Asked before every page, outside of any request: a connection that has broken makes way for a new one here.
        connections[self._using].close_if_unusable_or_obsolete()
        return FeedPosition.objects.using(self._using).filter(pk=name).values_list("position", flat=True).first()

    def set_position(self, name: str, cursor: str) -> None:
        moved = {"position": cursor, "moved_at": timezone.now()}
        FeedPosition.objects.using(self._using).update_or_create(pk=name, defaults=moved)
