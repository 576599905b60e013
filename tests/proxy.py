"""deploy/nginx.conf with a real nginx, in front of a web server of the test's."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from tests.local import free_port

CONFIG = (Path(settings.BASE_DIR) / "deploy" / "nginx.conf").read_text()


def nginx() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("nginx is not installed here")
    return found


def configure(folder: Path, *, port: int, upstream: str) -> Path:
    """The same but for addresses, and for what may be written where."""
    text = CONFIG.replace("/tmp/", f"{folder}/").replace("server web:8000;", f"server {upstream};")
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};")
    assert text.count(str(folder)) == 6
    assert re.search(r"web:8000|8080", text) is None
    path = folder / "nginx.conf"
    path.write_text(text)
    return path


@contextmanager
def running_proxy(folder: Path, *, upstream: str) -> Iterator[str]:
    """Its URL."""
    port = free_port()
    path = configure(folder, port=port, upstream=upstream)
    # Started by root, its workers would be somebody who may not write here. In the container nobody is root.
    words = "daemon off; user root;" if os.getuid() == 0 else "daemon off;"
    command = [nginx(), "-c", str(path), "-e", str(folder / "error.log"), "-g", words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
