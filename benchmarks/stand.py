"""The bench's stand: the real servers and processes, in a folder of their own, with their CPU time in view.

Settings are those of a deployment: fsync on, granian, Celery workers, logs at INFO, whatever the shell's environment
says. Two things differ: loopback targets are allowed, and the API's rate limit is counted as often as ever but has a
burst that no run uses up.
"""

import base64
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import processes
from benchmarks.load.receiver import free_port, kind, received, receiver
from webhooks_platform.local import programs
from webhooks_platform.local.children import Child, last_lines
from webhooks_platform.local.environment import BASE_DIR, read_options
from webhooks_platform.local.folder import DataFolder, claim
from webhooks_platform.local.postgres import embedded_postgres
from webhooks_platform.local.server import RunningServer
from webhooks_platform.local.valkey import embedded_valkey

# Where a setting's name stands in settings.py.
SETTING = re.compile(r"""\benv\.\w+\(["']([A-Z_]+)["']""")
# A thousand requests in flight are as many open files, in a worker and in its receiver.
OPEN_FILES = 65_536
FINISH_SECONDS = 60


class Failed(Exception):
    """A measure cannot go on; the text says why."""


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

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *names: str, **settings: str) -> None:
        given = {"DATA_DIR": str(self.folder.path), "PORT": str(self.port), "DELIVERY_WORKERS": "8"}
        for program in programs.platform(self.folder, {**self.env, **settings}, read_options(given)):
            if program.name in names:
                self.children[program.name] = Child(program)

    def finish(self, *names: str) -> None:
        """Told to stop, and waited for, but not yet reaped: so long does the kernel know what CPU they used."""
        for name in names:
            self.children[name].stop()
        deadline = time.monotonic() + FINISH_SECONDS
        for name in names:
            while os.waitid(os.P_PID, self.children[name].pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                if time.monotonic() > deadline:
                    raise Failed(f"{name} has not ended {FINISH_SECONDS} s after it was told to.")
                time.sleep(0.02)

    def stop(self, *names: str, now: bool = False) -> None:
        """As a deployment would; `now` is for workers that wait for receivers which never answer."""
        stopped = [self.children.pop(name) for name in names or list(self.children)]
        for child in stopped:
            child.kill_now() if now else child.stop()
        for child in stopped:
            if not child.wait(40):
                child.kill_now()
                child.wait(10)

    def wait_until(self, true: Callable[[], bool], *, seconds: float, what: str, every: float = 0.1) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            for name, child in self.children.items():
                if child.exit_code() is not None:
                    raise Failed(f"{name} has ended. The end of its log:\n{last_lines(self.folder.log(name))}")
            if time.monotonic() > deadline:
                raise Failed(f"After {seconds:g} s still waiting for {what}.")
            time.sleep(every)

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, per part."""
        parts = {"worker": 0.0, "web": 0.0, "background": 0.0}
        for name, child in self.children.items():
            parts[_part(name)] += processes.cpu_seconds(child.pid)
        servers = {"postgres": self.postgres.pid, "redis": self.valkey.pid, "receiver": self.receiver_pid}
        return parts | {part: processes.cpu_seconds(pid) for part, pid in servers.items()}

    def memory_mib(self, name: str) -> float:
        return processes.memory_mib(self.children[name].pid)

    def received(self) -> int | None:
        """Requests its receiver was sent so far; None where that is nginx, which is not asked."""
        return received(self.receiver_url) if kind() == "asyncio" else None


@contextmanager
def stand(kept: Path | None = None, **settings: str) -> Iterator[Stand]:
    """In a temporary folder, or in one that is kept and found again by the next run."""
    _allow_open_files()
    with ExitStack() as stack:
        path = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whb", ignore_cleanup_errors=True)))
        path.mkdir(exist_ok=True)
        path.chmod(0o711)
        folder = stack.enter_context(claim(path))
        postgres = stack.enter_context(embedded_postgres(folder))
        valkey = stack.enter_context(embedded_valkey(folder))
        url, pid = stack.enter_context(receiver(path))
        env = {
            **without_settings(os.environ),
            "ENV_FILE": "",
            "SECRET_KEY": "only-for-benchmarks-" + "x" * 40,
            "ENCRYPTION_KEYS": "b1:" + base64.b64encode(b"b" * 32).decode(),
            "DELIVERY_ALLOWED_NETWORKS": "127.0.0.0/8",
            "DATABASE_URL": postgres.url,
            "REDIS_URL": valkey.url,
            # A process takes from the limit ahead, the more the higher the rate: that stays as it is by default.
            "API_RATE_BURST": "10000000",
            "LOG_LEVEL": "INFO",
            "DJANGO_SETTINGS_MODULE": "webhooks_platform.settings",
            **settings,
        }
        for name in os.environ.keys() - env.keys():
            del os.environ[name]
        os.environ.update(env)
        migrate = [sys.executable, str(BASE_DIR / "manage.py"), "migrate", "--verbosity", "0"]
        subprocess.run(migrate, env=env, check=True)
        import django

        django.setup()
        bench = Stand(folder, env, postgres, valkey, url, pid, port=free_port())
        try:
            yield bench
        finally:
            bench.stop(now=True)


def without_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Without whatever our settings would read: a run measures the defaults, not somebody's shell."""
    known = set(SETTING.findall((BASE_DIR / "webhooks_platform" / "settings.py").read_text()))
    return {name: value for name, value in given.items() if name not in known}


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _part(name: str) -> str:
    return "worker" if name.startswith("deliveries") else "background" if name == "beat" else name
