"""What `make up` was asked to do: its options from the environment, and a `.env` with fresh secrets on first start."""

import base64
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import environ

from webhooks_platform.local.folder import SetupError

BASE_DIR = Path(__file__).resolve().parent.parent.parent
# One listens on all addresses, yet types one of them.
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104

HEADER = """\
# Written by `make up`. These are this clone's own secrets, so the file is readable by you alone and never committed.
# The environment wins over this file. webhooks_platform/settings.py explains every other setting.
# To use servers of your own instead of the embedded ones:
#   DATABASE_URL=postgres://user:password@localhost:5432/webhooks
#   REDIS_URL=redis://localhost:6379/0
"""


@dataclass(frozen=True)
class LocalOptions:
    data_dir: Path
    host: str
    port: int
    receiver_port: int
    delivery_workers: int
    # For servers that DATABASE_URL and REDIS_URL name: they may be starting as well.
    server_wait_seconds: int

    @property
    def url(self) -> str:
        """Where a person on this machine finds the web server."""
        name = LOOPBACK_OF.get(self.host, self.host)
        return f"http://[{name}]:{self.port}" if ":" in name else f"http://{name}:{self.port}"

    @property
    def receiver_url(self) -> str:
        return f"http://127.0.0.1:{self.receiver_port}/webhooks"


def read_options(env: Mapping[str, str]) -> LocalOptions:
    port = _number(env, "PORT", default=8000, low=1, high=65535)
    receiver_port = _number(env, "RECEIVER_PORT", default=port + 1, low=1, high=65535)
    if receiver_port == port:
        raise SetupError(f"PORT and RECEIVER_PORT are both {port}. Each needs one of its own.")
    return LocalOptions(
        data_dir=Path(env.get("DATA_DIR") or BASE_DIR / ".data").resolve(),
        host=env.get("HOST") or "127.0.0.1",
        port=port,
        receiver_port=receiver_port,
        delivery_workers=_number(env, "DELIVERY_WORKERS", default=2, low=1, high=64),
        server_wait_seconds=_number(env, "SERVER_WAIT_SECONDS", default=30, low=1, high=600),
    )


def load_env_file() -> Path | None:
    """Bring `.env` into the environment, after adding what it lacks. The path is given back if anything was written."""
    name = os.environ.get("ENV_FILE", str(BASE_DIR / ".env"))
    if not name:
        return None
    path = Path(name)
    _read(path)
    missing = [entry for entry in _fresh_entries() if entry.split("\n")[-1].partition("=")[0] not in os.environ]
    if missing:
        _append(path, missing)
        _read(path)
    return path if missing else None


def _read(path: Path) -> None:
    if path.exists():
        environ.Env.read_env(path)


def _fresh_entries() -> list[str]:
    encryption_key = base64.b64encode(secrets.token_bytes(32)).decode()
    return [
        f"# Signs sessions, CSRF tokens and portal links.\nSECRET_KEY={secrets.token_urlsafe(48)}",
        "# Encrypts endpoint secrets in the database, which are lost without it: keep it with the data.\n"
        f"ENCRYPTION_KEYS=k1:{encryption_key}",
        "# Loopback targets, for the demo's receiver. Leave it empty to refuse them, as a deployment does.\n"
        "DELIVERY_ALLOWED_NETWORKS=127.0.0.0/8,::1/128",
        "# Logs for people; `json` for machines.\nLOG_FORMAT=text",
    ]


def _append(path: Path, entries: list[str]) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(("\n" if file.tell() else HEADER) + "".join(f"\n{entry}\n" for entry in entries))
    except OSError as error:
        raise SetupError(f"Cannot write {path}: {error.strerror}. ENV_FILE names another place for it.") from None


def _number(env: Mapping[str, str], name: str, *, default: int, low: int, high: int) -> int:
    text = env.get(name) or str(default)
    if not text.isdecimal() or not low <= int(text) <= high:
        raise SetupError(f"{name}={text} makes no sense: it takes a number from {low} to {high}.")
    return int(text)
