"""What has to be known before the first connection to the database is made."""

from django.apps import AppConfig

from deliveries.sql import arrays


class DeliveriesConfig(AppConfig):
    name = "deliveries"

    def ready(self) -> None:
        arrays.teach_psycopg()
