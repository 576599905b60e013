"""`make upgrade FROM=<commit>`: an upgrade from that commit to this tree and the way back, under load, on one database.

1. The old code makes its tables, runs, and takes events.
2. It is stopped as a deployment stops it; this tree migrates; this tree runs. Producers go on all the while.
3. The way back: stopped again, the migrations that the old code does not know are undone, and the old code runs.

After each step everything answered with 202 must be delivered. Both run with this tree's packages.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")

from tests.faults.harness.faults import FAULTS
from tests.faults.harness.receiver import running_receivers
from tests.faults.harness.rounds import Fault, Scene, Session
from tests.faults.harness.system import PROCESSES, System, running_system
from tests.local import wait_until
from webhooks_platform.local.environment import BASE_DIR

# By the folder that holds an app: its name in commands.
_APPS = {"deliveries": "deliveries", "subscriptions": "subscriptions", "accounts": "console_accounts"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make upgrade")
    parser.add_argument("--from", dest="commit", required=True, help="the commit to upgrade from")
    options = parser.parse_args()
    with (
        _tree(options.commit) as old,
        running_receivers() as receivers,
        running_system(tree=old) as system,
    ):
        session = Session(system, receivers)
        newest = _migrations(BASE_DIR)
        known = {app: name for app, name in _migrations(old).items() if name != newest[app]}
        kept = [
            _round(session, "old code", FAULTS["none"].inject),
            _round(session, "upgrade", lambda scene: _change(scene, system, BASE_DIR, {})),
            _round(session, "new code", FAULTS["none"].inject),
            _round(session, "way back", lambda scene: _change(scene, system, old, known)),
            _round(session, "old code again", FAULTS["none"].inject),
        ]
        session.close()
    return 0 if all(kept) else 1


def _round(session: Session, name: str, inject: Callable[[Scene], None]) -> bool:
    done = session.run(Fault(name.replace(" ", "-"), name, inject, patience=600), seed=1)
    _say(
        f"{'✔' if done.passed else '✘'} {name}: {done.audit.accepted} accepted, {done.audit.delivered} delivered,"
        f" {done.audit.duplicate_count} doubled, nobody delivered for {done.worst_lag_seconds:.1f} s at most,"
        f" callers saw {dict(done.unanswered) or '202 only'}"
    )
    for violation in done.audit.violations[:5]:
        _say(f"    ✘ {violation}")
    return done.passed


def _change(scene: Scene, system: System, tree: Path, back_to: dict[str, str]) -> None:
    scene.begin()
    system.terminate(*PROCESSES)
    for app, migration in back_to.items():
        _say(f"    manage.py migrate {app} {migration}")
        system.manage("migrate", "--verbosity", "0", app, migration)
    system.tree = tree
    if not back_to:
        _say("    manage.py migrate")
        system.manage("migrate", "--verbosity", "0")
    system.start(*PROCESSES)
    wait_until(lambda: system.answers("healthz"), seconds=60)
    scene.healed()


def _migrations(tree: Path) -> dict[str, str]:
    """The last migration of each app that the tree knows."""
    found: dict[str, str] = {}
    for folder in tree.rglob("migrations"):
        names = sorted(path.stem for path in folder.glob("[0-9]*.py"))
        if folder.parent.name in _APPS and names and ".venv" not in folder.parts:
            found[_APPS[folder.parent.name]] = names[-1]
    return found


@contextmanager
def _tree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="upgrade") as name:
        path = Path(name).resolve() / "old"
        worktree = ["git", "-C", str(BASE_DIR), "worktree"]
        subprocess.run([*worktree, "add", "--detach", "--quiet", str(path), commit], check=True)
        try:
            yield path
        finally:
            subprocess.run([*worktree, "remove", "--force", str(path)], check=True)


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
