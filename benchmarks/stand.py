"""The bench's stand: the real servers and processes, in a folder of their own, with their CPU time in view."""

import base64
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.receiver import receiver
from webhooks_platform.local import programs
from webhooks_platform.local.children import Child
from webhooks_platform.local.environment import BASE_DIR, read_options
from webhooks_platform.local.folder import DataFolder, claim
from webhooks_platform.local.postgres import embedded_postgres
from webhooks_platform.local.server import RunningServer
from webhooks_platform.local.valkey import embedded_valkey


@dataclass
class Stand:
    folder: DataFolder
    env: dict[str, str]
    postgres: RunningServer
    valkey: RunningServer
    receiver_url: str
    receiver_pid: int
    port: int
    children: dict[str, Child] = field(default_factory=dict)

    def start(self, *names: str, **settings: str) -> None:
        given = {"DATA_DIR": str(self.folder.path), "PORT": str(self.port), "DELIVERY_WORKERS": "8"}
        options = read_options(given)
        for program in programs.platform(self.folder, {**self.env, **settings}, options):
            if program.name in names:
                self.children[program.name] = Child(program)

    def stop(self, *names: str) -> None:
        stopped = [self.children.pop(name) for name in names or list(self.children)]
        for child in stopped:
            child.stop()
        for child in stopped:
            if not child.wait(40):
                child.kill_now()
                child.wait(10)

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, per part."""
        return {
            "worker": sum(_cpu(child.pid) for name, child in self.children.items() if name.startswith("deliveries")),
            "web": sum(_cpu(child.pid) for name, child in self.children.items() if name == "web"),
            "background": sum(_cpu(c.pid) for name, c in self.children.items() if name in ("background", "beat")),
            "postgres": _cpu(self.postgres.pid),
            "redis": _cpu(self.valkey.pid),
            "receiver": _cpu(self.receiver_pid),
        }


@contextmanager
def stand() -> Iterator[Stand]:
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whb", ignore_cleanup_errors=True)))
        path.chmod(0o711)
        folder = stack.enter_context(claim(path))
        postgres = stack.enter_context(embedded_postgres(folder))
        valkey = stack.enter_context(embedded_valkey(folder))
        url, pid = stack.enter_context(receiver(path))
        env = {
            **os.environ,
            "ENV_FILE": "",
            "SECRET_KEY": "only-for-benchmarks-" + "x" * 40,
            "ENCRYPTION_KEYS": "b1:" + base64.b64encode(b"b" * 32).decode(),
            "DELIVERY_ALLOWED_NETWORKS": "127.0.0.0/8",
            "DATABASE_URL": postgres.url,
            "REDIS_URL": valkey.url,
            "API_RATE_PER_SECOND": "0",
            "LOG_LEVEL": os.environ.get("LOG_LEVEL", "INFO"),
        }
        os.environ.update(env)
        subprocess.run(
            [sys.executable, str(BASE_DIR / "manage.py"), "migrate", "--verbosity", "0"], env=env, check=True
        )
        import django

        django.setup()
        bench = Stand(folder, env, postgres, valkey, url, pid, port=18_000 + os.getpid() % 1000)
        try:
            yield bench
        finally:
            bench.stop()


def wait_until(true: Callable[[], bool], *, seconds: float, every: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"Gave up after {seconds} s.")
        time.sleep(every)


def _cpu(pid: int) -> float:
    """Of a process and its children. Ended children count through their parent."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for member in family:
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        if member is process:
            total += times.children_user + times.children_system
    return total
