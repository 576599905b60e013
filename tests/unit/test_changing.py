"""docs/changing.md names files and folders that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_names_twelve_changes_and_only_paths_that_exist() -> None:
    page = (ROOT / "docs/changing.md").read_text()
    named = re.findall(r"`([a-z_]+/[\w./]*|docker-compose\.yml)`", page)
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert len([line for line in page.splitlines() if line.startswith("| ")]) == 1 + 12
