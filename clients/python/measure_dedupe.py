"""How long the dedupe takes, on PostgreSQL with Redis in front.

DATABASE_URL=… REDIS_URL=… python measure_dedupe.py 2000        (with the kit, psycopg and redis installed)

It makes three tables (dedupe_measured_…) and drops them. Half of the calls are new events, half duplicates.
"""

import os
import sys
import time
import uuid
from contextlib import closing

import psycopg
import redis
from webhooks_client.receive import DbApiStore, RedisFront

PREFIX = "dedupe_measured"


def main(count: int) -> None:
    with closing(psycopg.connect(os.environ["DATABASE_URL"])) as connection:
        connection.close, close = lambda: None, connection.close  # type: ignore[method-assign]
        rows = DbApiStore(lambda: connection, placeholder="%s", prefix=PREFIX)
        rows.create_tables()
        try:
            with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
                store = RedisFront(client, rows)
                keys = [f"measured-{uuid.uuid4()}" for _ in range(count)]
                for name in ("new", "duplicate"):
                    shown(name, sorted(milliseconds(store, key, name) for key in keys))
        finally:
            with rows.transaction() as opened:
                for table in ("receipts", "sequences", "positions"):
                    opened.execute(f"DROP TABLE {PREFIX}_{table}")
            close()


def milliseconds(store: RedisFront, key: str, expected: str) -> float:
    begun = time.perf_counter()
    outcome = store.run_once(key, lambda transaction: None)
    if outcome != expected:
        raise SystemExit(f"{key} is {outcome}, not {expected}.")
    return (time.perf_counter() - begun) * 1000


def shown(name: str, taken: list[float]) -> None:
    middle, late = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
    print(f"{name}: {len(taken)} calls, median {middle:.2f} ms, p99 {late:.2f} ms, longest {taken[-1]:.2f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
