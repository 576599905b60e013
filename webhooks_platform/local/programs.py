"""The platform's own processes, as `make up` runs them. A deployment runs the same commands (docker-compose.yml)."""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from webhooks_platform.local.children import Program
from webhooks_platform.local.environment import BASE_DIR, LocalOptions
from webhooks_platform.local.folder import DataFolder

# Stopped in the opposite order: workers finish while the receiver and the servers still answer.
SERVERS, RECEIVER, PLATFORM = 0, 1, 2
# Requests in flight have at most 30 s to end, plus a little to write down how they did.
WORKER_STOP_SECONDS = 40


def manage(folder: DataFolder, env: Mapping[str, str], *arguments: str) -> Program:
    return _python(folder, env, name=arguments[0], arguments=[str(BASE_DIR / "manage.py"), *arguments])


def receiver(folder: DataFolder, env: Mapping[str, str], options: LocalOptions, secrets: list[str]) -> Program:
    """The client's receiver kit, from this clone: nothing of it is installed in the platform's own environment."""
    env = {**env, "WEBHOOK_SECRET": ",".join(secrets), "WEBHOOK_DATABASE": str(folder.path / "demo-receiver.sqlite3")}
    env["PYTHONPATH"] = str(BASE_DIR / "clients" / "python" / "src")
    arguments = [str(BASE_DIR / "examples" / "python" / "demo_receiver.py"), str(options.receiver_port)]
    return _python(folder, env, name="receiver", arguments=arguments, stage=RECEIVER)


def platform(folder: DataFolder, env: Mapping[str, str], options: LocalOptions) -> list[Program]:
    return [*web_and_deliveries(folder, env, options), *background(folder, env)]


def web_and_deliveries(folder: DataFolder, env: Mapping[str, str], options: LocalOptions) -> list[Program]:
    numbers = range(1, options.delivery_workers + 1)
    workers = [_worker(folder, env, name=f"deliveries{number}", queue="deliveries", threads=1) for number in numbers]
    return [_web(folder, env, options), *workers]


def background(folder: DataFolder, env: Mapping[str, str]) -> list[Program]:
    # Beat is a process of its own: inside a worker there would be one for every worker.
    beat = ["beat", "--schedule", str(folder.path / "celerybeat-schedule"), "--pidfile", ""]
    return [
        _worker(folder, env, name="background", queue="background", threads=4),
        _celery(folder, env, name="beat", arguments=beat),
    ]


def _web(folder: DataFolder, env: Mapping[str, str], options: LocalOptions) -> Program:
    arguments = [
        "-m",
        "webhooks_platform.web.lasting_granian",
        "--interface",
        "wsgi",
        "webhooks_platform.wsgi:application",
    ]
    arguments += ["--host", options.host, "--port", str(options.port), "--no-ws", "--no-access-log"]
    # A thread for every connection it takes; WEB_SLOTS says how many work at a time (webhooks_platform/web/). Over
    # HTTP/2, and before it knows which version a client speaks, it waits for ever.
    arguments += ["--workers", "2", "--http", "1", "--backlog", "1024", "--backpressure", "500"]
    arguments += ["--blocking-threads", "512"]
    # A worker of it that crashes comes back by itself; one that hangs on the way out is not waited for.
    arguments += ["--respawn-failed-workers", "--respawn-interval", "0.5", "--workers-kill-timeout", "5"]
    return _python(folder, env, name="web", arguments=arguments, stage=PLATFORM, death_signal=signal.SIGTERM)


def _worker(folder: DataFolder, env: Mapping[str, str], *, name: str, queue: str, threads: int) -> Program:
    arguments = ["worker", "--queues", queue, "--hostname", f"{name}@%h", "--pool", "threads"]
    arguments += ["--concurrency", str(threads), "--without-gossip", "--without-mingle", "--without-heartbeat"]
    return _celery(folder, env, name=name, arguments=arguments)


def _celery(folder: DataFolder, env: Mapping[str, str], *, name: str, arguments: list[str]) -> Program:
    command = ["-m", "celery", "--app", "webhooks_platform", *arguments]
    return _python(folder, env, name=name, arguments=command, stage=PLATFORM, stop_seconds=WORKER_STOP_SECONDS)


def _python(
    folder: DataFolder,
    env: Mapping[str, str],
    *,
    name: str,
    arguments: list[str],
    stage: int = PLATFORM,
    stop_seconds: float = 10,
    # When we are killed, the servers go at the same moment, so there is nothing left that a process could still finish.
    death_signal: signal.Signals = signal.SIGKILL,
) -> Program:
    return Program(
        name=name,
        command=[_interpreter(), *arguments],
        log=folder.log(name),
        cwd=BASE_DIR,
        env=env,
        stage=stage,
        stop_seconds=stop_seconds,
        death_signal=death_signal,
    )


def _interpreter() -> str:
    # Not resolved: the link inside .venv is what makes it the virtual environment's Python.
    return str(Path(sys.executable))
