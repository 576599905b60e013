"""An import that is killed on its way is run again, and makes what is left."""

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

from deliveries.moving.importing import BATCH_LINES
from subscriptions.models import Consumer, Endpoint, Lane
from tests.integration.deliveries.moving.setup_files import consumer, counts, endpoint, run, write

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_import_killed_on_its_way_is_completed_by_the_next(tmp_path: Path) -> None:
    lines = [
        line
        for number in range(20)
        for line in (
            consumer(f"c{number}"),
            *(endpoint(f"e{each}", consumer=f"c{number}") for each in range(40)),
        )
    ]
    file = write(tmp_path / "setup.jsonl", *lines)
    text = file.read_text().splitlines(keepends=True)
    # The servers of the tests, and this test's database on them.
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    child = subprocess.Popen(
        [sys.executable, "manage.py", "import_setup", "-"],
        cwd=settings.BASE_DIR, env={**os.environ, "DATABASE_URL": url}, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert child.stdin is not None
    try:
        # One batch, half of the next one, and then nothing: it waits for the rest when it is killed.
        child.stdin.write("".join(text[: BATCH_LINES * 3 // 2]).encode())
        child.stdin.flush()
        deadline = time.monotonic() + 90
        while Endpoint.objects.count() == 0:
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
    assert 0 < Endpoint.objects.count() < BATCH_LINES
    ran = run("import_setup", str(file))
    assert (ran.err, ran.failed) == ("", "")
    assert (Consumer.objects.count(), Endpoint.objects.count(), Lane.objects.count()) == (20, 800, 800)
    assert counts(ran.out)["endpoint"][1] > 0
    assert counts(run("import_setup", str(file)).out)["endpoint"] == [0, 800, 0, 0, 0]
