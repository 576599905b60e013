"""Started as root (a container, a CI machine), the servers run as somebody else: PostgreSQL refuses to be root.

That somebody must be able to reach the folders in question. What is in the way gets the narrowest bit that helps, and a
line says so. Not started as root, everything here does nothing.
"""

import os
import pwd
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from webhooks_platform.local.children import Account
from webhooks_platform.local.folder import DataFolder, SetupError

Say = Callable[[str], None]


def server_account(folder: DataFolder) -> Account | None:
    """The owner of the data there is, else `postgres` where that user exists, else `nobody`. None when not root."""
    if os.geteuid() != 0:
        return None
    if folder.postgres.exists() and (owner := folder.postgres.stat()).st_uid != 0:
        # By number: in a container, the owner of a mounted folder need not have a name.
        return Account(f"#{owner.st_uid}", owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise SetupError("PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as.")


def private_dir(path: Path, account: Account | None) -> None:
    """Make a folder that only the server's user (and root) can enter."""
    path.mkdir(parents=True, exist_ok=True)
    found = path.lstat()
    # A socket folder may lie in the shared /tmp: somebody else's folder, or a link, is not ours to trust.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {os.geteuid(), account.uid if account else os.geteuid()}:
        raise SetupError(f"{path} is not a folder of ours. Remove it and start again.")
    path.chmod(0o700)
    if account:
        os.chown(path, account.uid, account.gid)


def open_way(path: Path, account: Account | None, say: Say) -> None:
    """Let the account pass through every folder above `path`."""
    if account:
        # The way as written, and the way behind any links in it.
        parents = dict.fromkeys([*path.parents, *path.resolve().parents])
        closed = [parent for parent in parents if _lacks(parent, account, 0o1)]
        for parent in closed:
            _grant(parent, account, 0o1)
        if closed:
            say(f"let the user {account.name} pass through {_names(closed)} (search permission only)")


def open_files(roots: Iterable[Path], account: Account | None, say: Say) -> None:
    """Let the account read what was installed under a strict umask: files readable, folders and programs executable."""
    if account is None:
        return
    opened = 0
    for root in roots:
        for path in [root, *root.rglob("*")]:
            bits = 0o5 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o4
            if _lacks(path, account, bits):
                _grant(path, account, bits)
                opened += 1
    if opened:
        say(f"let the user {account.name} read {opened} of the servers' program files")


def _lacks(path: Path, account: Account, bits: int) -> bool:
    found = path.stat()
    return (found.st_mode >> _shift(found, account)) & bits != bits


def _grant(path: Path, account: Account, bits: int) -> None:
    found = path.stat()
    path.chmod(stat.S_IMODE(found.st_mode) | bits << _shift(found, account))


def _shift(found: os.stat_result, account: Account) -> int:
    """Which of the three sets of permission bits the kernel looks at."""
    if found.st_uid == account.uid:
        return 6
    return 3 if found.st_gid == account.gid else 0


def _names(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)
