"""A fresh SQLite file for each test, with both apps migrated."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("django")


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import django
    from django.core.management import call_command
    from django.db import connection

    path = tmp_path_factory.mktemp("django") / "migrated.sqlite3"
    os.environ["TEST_DATABASE"] = str(path)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django_settings"
    django.setup()
    call_command("migrate", verbosity=0)
    connection.close()
    return path


@pytest.fixture(autouse=True)
def database(migrated: Path, tmp_path: Path) -> Iterator[Path]:
    from django.db import connections

    path = tmp_path / "db.sqlite3"
    shutil.copy(migrated, path)
    connection = connections["default"]
    connection.settings_dict["NAME"] = str(path)
    yield path
    connection.close()
