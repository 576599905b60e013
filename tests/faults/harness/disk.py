"""A disk of PostgreSQL's own that can lose power or be full: ext4 in a file, mounted by loop. Linux, and root, only.

Power is lost as the kernel's own tests of file systems do it: the file system is shut down without writing its journal.
From then on every write fails, and what had not been synced is gone when it is mounted again.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

_SIZE = 1_500_000_000
# Of linux/fs.h: _IOR('X', 125, __u32), and "do not write the journal".
_SHUTDOWN, _WITHOUT_JOURNAL = 0x8004587D, 2


class Disk:
    """Mounted at `place`, which may hold files: they move onto it."""

    def __init__(self, place: Path, image: Path) -> None:
        self._place = place
        self._image = image

    def take_over(self) -> None:
        with self._image.open("wb") as file:
            file.truncate(_SIZE)
        _run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        beside = self._image.with_suffix(".mount")
        beside.mkdir()
        _run("mount", "-o", "loop", str(self._image), str(beside))
        (beside / "lost+found").rmdir()
        _run("cp", "-a", f"{self._place}/.", str(beside))
        os.sync()
        _run("umount", str(beside))
        self._mount()

    def lose_power(self) -> None:
        root = os.open(self._place, os.O_RDONLY)
        try:
            fcntl.ioctl(root, _SHUTDOWN, struct.pack("I", _WITHOUT_JOURNAL))
        finally:
            os.close(root)

    def power_on(self) -> None:
        """When nobody has a file open there any more. Mounting replays what the journal has."""
        self.unmount()
        self._mount()

    @contextmanager
    def full(self) -> Iterator[None]:
        ballast = self._place / "ballast"
        with ballast.open("wb") as file:
            free = os.statvfs(self._place)
            os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - 65536))
        try:
            yield
        finally:
            ballast.unlink()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self._place))

    def unmount(self) -> None:
        _run("umount", str(self._place))


@lru_cache(maxsize=1)
def why_no_disk() -> str:
    """Empty where a disk can be had."""
    if os.geteuid() != 0:
        return "a file system of its own needs root"
    if not all(shutil.which(program) for program in ("mkfs.ext4", "mount", "umount")):
        return "mkfs.ext4 and mount are not installed"
    if not Path("/dev/loop-control").exists():
        return "the kernel has no loop devices"
    return ""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
