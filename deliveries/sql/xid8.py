"""Transaction ids as a column, for events: the order in which they became visible to readers of the feed."""

from django.db import models


class Xid8Field(models.Field[str, str]):
    """PostgreSQL's 64-bit transaction id."""

    def db_type(self, connection: object) -> str:
        return "xid8"


class FeedTransaction(models.Func):
    """The id of the current transaction as the feed counts them: feed.py says how, after a dump was restored."""

    template = "webhooks_feed_xid(pg_current_xact_id())"
    output_field = Xid8Field()
