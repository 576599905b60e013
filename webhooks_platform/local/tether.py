"""The last step before a child's own program: become its user, tie its life to the parent's, then exec.

Run as a script (`python -I -S tether.py PARENT_PID SIGNAL UID GID COMMAND…`), not imported: what Python would do
between fork and exec may deadlock a process that has threads, a fresh interpreter may not.

On Linux the kernel sends SIGNAL when the parent's thread that started the child ends, also by kill -9. Start children
from the main thread only. macOS has no such signal; there the next start stops what a killed one left behind.
"""

# All before the change of user, who may not be able to read this Python's files.
import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, signal, uid, gid = (int(argument) for argument in arguments[:4])
    command = arguments[4:]
    # What the stack writes (logs, the receiver's inbox) is its owner's business.
    os.umask(0o077)
    if uid >= 0:
        os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)
    # After the change of user, which would clear it again.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0)
    # The parent may have died before the kernel knew whom to tell.
    if os.getppid() != parent:
        sys.exit(1)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
