import random
import time
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from shop.orders import place


class OutOfStock(Exception):
    pass


class Command(BaseCommand):
    help = "Places orders until it is stopped. Every fourth or so turns out to be out of stock, and is rolled back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--consumer", default="acme")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--pause", type=float, default=0.02, help="seconds between two orders")
        parser.add_argument("--rolled-back", help="a file that gets the references of those")

    def handle(self, *, consumer: str, seed: int, pause: float, rolled_back: str | None, **_: Any) -> None:
        chance = random.Random(seed)

        def refuse() -> None:
            raise OutOfStock

        while True:
            reference = uuid.uuid4().hex
            try:
                place(reference, consumer=consumer, check=refuse if chance.random() < 0.25 else lambda: None)
            except OutOfStock:
                if rolled_back:
                    with Path(rolled_back).open("a") as file:
                        file.write(reference + "\n")
            time.sleep(pause)
