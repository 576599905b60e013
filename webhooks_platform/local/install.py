"""`python install.py locks/local.txt`: pip, with one moving line instead of hundreds. Used by the Makefile.

Run as a script, by a virtual environment that holds nothing yet: it imports nothing but the standard library.
"""

import re
import subprocess
import sys
import time
from collections import deque
from pathlib import Path


def main(lock: Path) -> int:
    begun_at = time.monotonic()
    total = len(re.findall("^[a-zA-Z0-9]", lock.read_text(), re.MULTILINE))
    _say(f"  … installing {total} packages into .venv (about a minute, once)\n")
    command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--disable-pip-version-check", "--no-input"]
    pip = subprocess.Popen([*command, "-r", str(lock)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    last = _follow(pip, total)
    if pip.wait() != 0:
        _say(f"\n  ✘ pip failed:\n\n{''.join(last)}\n")
        return 1
    _say(f"  ✔ packages installed ({time.monotonic() - begun_at:.0f} s)\n")
    return 0


def _follow(pip: "subprocess.Popen[str]", total: int) -> deque[str]:
    """Show how far it is, and keep the end of what it says."""
    last: deque[str] = deque(maxlen=25)
    count = 0
    assert pip.stdout is not None
    for line in pip.stdout:
        last.append(line)
        if match := re.match(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)", line):
            count += 1
            _progress(f"  … {min(count, total)}/{total} {match[1]}")
        elif line.startswith("Installing collected"):
            _progress("  … unpacking")
    _progress("")
    return last


def _progress(text: str) -> None:
    if sys.stdout.isatty():
        _say(f"\r\033[K{text}")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    # Without UTF-8, a question mark rather than a traceback.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(Path(sys.argv[1])))
