import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webhooks_client.django.outbox import configured, relay


class Command(BaseCommand):
    help = "Sends the outbox to the platform, until it is stopped. Needs WEBHOOKS_URL and WEBHOOKS_KEY."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="send what is there now, then end")
        parser.add_argument("--idle", type=float, default=1.0, help="seconds between looks at an empty outbox")
        parser.add_argument("--batch", type=int, default=relay.BATCH, help="events in a batch")
        parser.add_argument("--database", default="default")

    def handle(self, *, once: bool, idle: float, batch: int, database: str, **_: Any) -> None:
        with configured.client() as client:
            if once:
                sent = relay.send_all(client, limit=batch, using=database)
                self.stdout.write(f"{sent.accepted} accepted, {sent.refused} refused")
                return
            stop = threading.Event()

            def end(_signal: int, _frame: FrameType | None) -> None:
                stop.set()

            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, end)
            relay.run(client, stopped=stop.is_set, sleep=stop.wait, idle_seconds=idle, limit=batch, using=database)
