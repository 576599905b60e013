"""What a receiver did, in numbers that tell when something is wrong.

A jump of `duplicate` means that the sender retries: are answers late? None at all for weeks may mean that the dedupe
sees no ids. `fallback` counts the times Redis could not be asked; `rejected` what did not verify.
"""

import threading
from bisect import bisect_left
from typing import Literal

Name = Literal["new", "duplicate", "fast_path_hit", "fallback", "rejected", "failed", "stale", "gap"]

_NAMES: tuple[Name, ...] = ("new", "duplicate", "fast_path_hit", "fallback", "rejected", "failed", "stale", "gap")
# Upper ends of the latency histogram (seconds).
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counters:
    """Of one process; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Name, int] = dict.fromkeys(_NAMES, 0)
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def count(self, name: Name) -> None:
        with self._lock:
            self._counts[name] += 1

    def took(self, seconds: float) -> None:
        with self._lock:
            self._buckets[bisect_left(BUCKETS, seconds)] += 1
            self._seconds += seconds

    def snapshot(self) -> dict[Name, int]:
        with self._lock:
            return dict(self._counts)

    def prometheus(self, prefix: str = "webhooks_receiver") -> str:
        """In the text format that Prometheus reads."""
        with self._lock:
            counts, buckets, seconds = dict(self._counts), list(self._buckets), self._seconds
        lines = [f"# TYPE {prefix}_events_total counter"]
        lines += [f'{prefix}_events_total{{outcome="{name}"}} {count}' for name, count in counts.items()]
        lines.append(f"# TYPE {prefix}_seconds histogram")
        below = 0
        for end, count in zip([*map(str, BUCKETS), "+Inf"], buckets, strict=True):
            below += count
            lines.append(f'{prefix}_seconds_bucket{{le="{end}"}} {below}')
        lines += [f"{prefix}_seconds_sum {seconds}", f"{prefix}_seconds_count {below}"]
        return "\n".join(lines) + "\n"
