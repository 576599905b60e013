"""Which process holds a lease, so that others on the same machine can tell at once whether it still lives.

An identity names the machine's boot, the space its process numbers belong to (a container has its own), the number, and
the moment the process began: a number that was given to another process since is not taken for the same. Of a process
elsewhere nothing can be said: there the lease has to run out. Where there is no `/proc`, nobody has an identity.
"""

import os
from pathlib import Path

_PROC = Path("/proc")
# Ended, but nobody has asked how.
_ENDED_STATES = {"Z", "X"}


def identity(pid: int | None = None, *, proc: Path = _PROC) -> str:
    """Of this process, unless another one of this machine is named. Empty where it cannot be told."""
    number = os.getpid() if pid is None else pid
    began = _began(number, proc)
    place = _place(proc)
    return f"{place}/{number}/{began}" if began and place else ""


def place() -> str:
    """What the identities of all processes begin with that can be looked at from here. Empty where there is none."""
    return _place(_PROC)


def is_dead(known: str, *, proc: Path = _PROC) -> bool:
    """Whether it certainly is: it was here, and is not any more."""
    here, number, began = known.rsplit("/", 2) if known.count("/") >= 2 else ("", "", "")
    if not here or here != _place(proc) or not number.isdecimal():
        return False
    now_began = _began(int(number), proc)
    return _is_gone(int(number)) if now_began is None else now_began != began


def _place(proc: Path) -> str:
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(proc / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _is_gone(pid: int) -> bool:
    """Asked without opening a file: this process may be out of them, or may not see the files of others."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's, and there
        pass
    return False


def _began(pid: int, proc: Path) -> str | None:
    """Ticks from the machine's start to the process's. Empty when it has ended, None when it cannot be looked at."""
    try:
        # The name in brackets may hold anything; what follows are numbers.
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if not fields or fields[0] in _ENDED_STATES else fields[19]
