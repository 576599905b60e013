"""Default addresses of PostgreSQL and Valkey: unix sockets in the data folder, where `make up` starts both."""

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.parse import quote

# The kernel takes 107 bytes for a socket's path (103 on macOS), and ".s.PGSQL.5432" is the longest name in there.
MAX_SOCKET_DIR_LENGTH = 103 - len("/.s.PGSQL.5432.lock")


def socket_dir(data_dir: Path) -> Path:
    """The data folder's own `run/`, or a short stand-in for a clone that lies too deep for a socket's path."""
    inside = data_dir.resolve() / "run"
    if len(os.fsencode(inside)) <= MAX_SOCKET_DIR_LENGTH:
        return inside
    digest = hashlib.sha256(os.fsencode(inside)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"webhooks-{os.getuid()}-{digest}"


def database_url(data_dir: Path, *, database: str = "webhooks") -> str:
    return f"postgres://webhooks@/{database}?host={quote(str(socket_dir(data_dir)))}"


def redis_url(data_dir: Path) -> str:
    return f"unix://{socket_dir(data_dir) / 'valkey.sock'}"
