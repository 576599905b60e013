"""Lines for whoever watches, each with the seconds since the run began."""

import time

_BEGUN = time.monotonic()


def say(line: str) -> None:
    print(f"{time.monotonic() - _BEGUN:6.0f} s  {line}", flush=True)
