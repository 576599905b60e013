"""`manage.py export_setup`: what is imported elsewhere is the same, ids and secrets included."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint, EventType
from tests.integration.deliveries.moving.setup_files import OLDER, SECRET, counts, run, write
from tests.integration.deliveries.moving.test_importing import FULL
from tests.walk import accept

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def file(tmp_path: Path, acme: Consumer) -> Path:
    """An export with secrets of a system that holds a bit of everything."""
    run("import_setup", str(write(tmp_path / "setup.jsonl", *FULL)))
    rotated, _ = endpoints.create(consumer=acme, url="https://acme.example/", secret=OLDER)
    endpoints.rotate_secret(rotated, overlap_seconds=600, secret=SECRET)
    paused, _ = endpoints.create(consumer=Consumer.objects.create(uid=None), url="https://nameless.example/")
    endpoints.pause(paused)
    gone, _ = endpoints.create(consumer=acme, url="https://gone.example/")
    endpoints.delete(gone)
    ran = run("export_setup", str(tmp_path / "all.jsonl"), "--with-secrets")
    assert (ran.out, ran.failed) == ("7 lines.\n", "")
    return tmp_path / "all.jsonl"


def everything() -> list[Any]:
    now = timezone.now()
    rows = Endpoint.objects.filter(deleted_at__isnull=True).order_by("id")
    fields = ("id", "uid", "consumer_id", "url", "event_types", "status", "max_in_flight", "retry_schedule", "metadata")
    return [
        *Consumer.objects.order_by("id").values("id", "uid", "name", "contact_email", "metadata"),
        *rows.values(*fields),
        *[(endpoints.secrets_of(row, now=now), endpoints.headers_of(row)) for row in rows],
        *[row.previous_secret_expires_at for row in rows],
        *EventType.objects.values("name", "description"),
    ]


def test_what_is_exported_and_imported_elsewhere_is_the_same(file: Path) -> None:
    before = everything()
    Endpoint.objects.all().delete()
    Consumer.objects.all().delete()
    EventType.objects.all().delete()
    ran = run("import_setup", str(file))
    assert (ran.err, ran.failed) == ("", "")
    assert counts(ran.out) == {
        "event type": [1, 0, 0, 0, 0], "consumer": [3, 0, 0, 0, 0], "endpoint": [3, 0, 0, 0, 0],
    }  # fmt: skip
    assert everything() == before


def test_what_is_exported_is_here_already(file: Path) -> None:
    ran = run("import_setup", str(file), "--update")
    assert (ran.err, ran.failed) == ("", "")
    assert "Nothing was changed." in ran.out


def test_the_file_is_for_its_owner_alone_also_where_there_was_one(tmp_path: Path, acme: Consumer) -> None:
    path = write(tmp_path / "all.jsonl", "old")
    path.chmod(0o644)
    run("export_setup", str(path), "--with-secrets")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [child.name for child in tmp_path.iterdir()] == ["all.jsonl"]


def test_secrets_are_left_out_unless_they_are_asked_for(file: Path) -> None:
    ran = run("export_setup", str(file.with_name("without.jsonl")))
    text = file.with_name("without.jsonl").read_text()
    assert ran.out.splitlines()[0] == "7 lines."
    assert "Without secrets" in ran.out
    assert not {"secret", "previous_secret", "headers"} & {
        name for line in text.splitlines() for name in json.loads(line)
    }
    assert SECRET not in text
    assert SECRET in file.read_text()


def test_types_that_were_only_emitted_are_left_out(tmp_path: Path, acme: Consumer) -> None:
    accept(acme, type="never.declared")
    run("export_setup", str(tmp_path / "all.jsonl"))
    assert "never.declared" not in (tmp_path / "all.jsonl").read_text()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, acme: Consumer) -> None:
    assert run("export_setup", str(tmp_path / "no" / "all.jsonl")).failed.startswith("Cannot write ")
