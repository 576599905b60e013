"""What has to be known before the first connection to the database is made."""

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings

from deliveries.sql import arrays
from subscriptions.process import counting, fail_points


class DeliveriesConfig(AppConfig):
    name = "deliveries"

    def ready(self) -> None:
        arrays.teach_psycopg()
        if settings.FAIL_POINTS_DIR and (settings.FAIL_POINTS_ALLOWED or settings.DEBUG):
            fail_points.turn_on(Path(settings.FAIL_POINTS_DIR))
        from deliveries.statistics import deltas  # needs the models

        counting.write_with(deltas.write)
