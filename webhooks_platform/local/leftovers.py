"""What a killed run left behind: a server that still runs on our data, or a pid file that names nobody's server.

Pids are reused, so a pid file proves nothing. A process is stopped only if it runs the expected program in the expected
folder. Both servers make their data folder their working directory, which identifies them beyond doubt.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from webhooks_platform.local.folder import SetupError

STOP_SECONDS = 20


def stop(*, pid_file: Path, program: str, folder: Path, number: signal.Signals) -> None:
    """After this, nothing runs on the folder and the pid file is gone. Call it with the folder claimed."""
    pid = _read_pid(pid_file)
    if pid and _runs(pid, program, folder):
        os.kill(pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while _runs(pid, program, folder):
            if time.monotonic() > deadline:
                raise SetupError(f"A {program} (pid {pid}) from an earlier run still uses {folder} and does not stop.")
            time.sleep(0.02)
    pid_file.unlink(missing_ok=True)


def _read_pid(pid_file: Path) -> int:
    try:
        return int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return 0


def _runs(pid: int, program: str, folder: Path) -> bool:
    try:
        name, cwd = _linux(pid) if sys.platform == "linux" else _elsewhere(pid)
        return name == program and cwd.samefile(folder)
    except (OSError, subprocess.SubprocessError):
        return False


def _linux(pid: int) -> tuple[str, Path]:
    # A program that was upgraded while it runs shows as "…/postgres (deleted)".
    process = Path("/proc") / str(pid)
    return (process / "exe").readlink().name.removesuffix(" (deleted)"), process / "cwd"


def _elsewhere(pid: int) -> tuple[str, Path]:
    executable = _output("ps", "-p", str(pid), "-o", "comm=").strip()
    fields = _output("lsof", "-a", "-p", str(pid), "-d", "cwd", "-Fn").splitlines()
    return Path(executable).name, Path(next((line[1:] for line in fields if line.startswith("n")), "/"))


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
