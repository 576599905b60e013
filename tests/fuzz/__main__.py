"""`make fuzz`: hostile requests to a real web server on servers of its own, for minutes or for a number of requests.

    make fuzz ARGS="--minutes 10"
    make fuzz ARGS="--examples 40 --seed 7"    # what a run that failed has printed

Each round sends `--examples` drawn requests to every route and method, each as every role, with a seed of its own. The
first round with a violation is the last one; its seed draws the same requests again.
"""

import argparse
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

# Of this process; what it reads and draws is not worth more.
MEMORY_BYTES = 4 * 1024**3


def main() -> int:
    options = _options()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with _server() as url:
        return _run(url, seed=options.seed, minutes=options.minutes, examples=options.examples)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Hostile requests to every API route as every role.")
    parser.add_argument("--minutes", type=float, default=0, help="go on for so long; 0: one round")
    parser.add_argument("--examples", type=int, default=20, help="requests drawn for each route and method in a round")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="of the first round")
    return parser.parse_args()


@contextmanager
def _server() -> Iterator[str]:
    """PostgreSQL, Valkey and the web server, started for this run and stopped with it; the server's URL."""
    from tests import servers  # its import starts the two servers, which the settings then name

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")
    import django

    django.setup()
    from tests.local import short_dir
    from tests.stack import Stack, manage
    from webhooks_platform.local.folder import claim

    with ExitStack() as running:
        running.callback(servers.pytest_unconfigure)
        manage("migrate", "--verbosity", "0")
        folder = running.enter_context(claim(running.enter_context(short_dir())))
        stack = Stack(folder, ("web",), {**os.environ, "API_RATE_PER_SECOND": "100000"})
        running.callback(stack.stop)
        stack.wait_ready()
        yield stack.url


def _run(url: str, *, seed: int, minutes: float, examples: int) -> int:
    from tests.fuzz.run import Fuzzer
    from tests.fuzz.wire import Wire

    fuzzer = Fuzzer(Wire(urlsplit(url).netloc))
    ends_at = time.monotonic() + minutes * 60
    while True:
        fuzzer.run(examples=examples, number=seed, is_over=lambda: minutes > 0 and time.monotonic() > ends_at)
        _say(f"seed {seed}: {sum(fuzzer.report.answers.values()):,} requests so far")
        if fuzzer.report.violations or time.monotonic() > ends_at:
            break
        seed += 1
    for violation in fuzzer.report.violations:
        _say(f"\n{violation}")
    _say(f"\n{fuzzer.report}\n{len(fuzzer.report.violations)} violations")
    if fuzzer.report.violations:
        _say(f'Again: make fuzz ARGS="--seed {seed} --examples {examples}"')
    return 1 if fuzzer.report.violations else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
