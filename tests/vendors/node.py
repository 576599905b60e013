"""Vendors' own libraries for Node.js, which `.ci/run` installs into tests/vendors/node_modules."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent


def verifies(vendor: str, *, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    program = shutil.which("node")
    if program is None or not (_FOLDER / "node_modules").is_dir():
        pytest.skip("no node on the PATH, or nobody ran `npm ci` in tests/vendors")
    given = json.dumps({"vendor": vendor, "secret": secret, "headers": dict(headers), "body": body.decode()})
    done = subprocess.run(
        [program, "verify.mjs"], cwd=_FOLDER, input=given + "\n", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return bool(json.loads(done.stdout.splitlines()[-1]))
