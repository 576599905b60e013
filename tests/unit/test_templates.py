"""The form of the templates. djLint indents them (`make format`); what it cannot break is broken by hand."""

from pathlib import Path

import pytest

TEMPLATES = sorted(Path(__file__).parents[2].joinpath("templates").rglob("*.html"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_line_of_a_template_is_longer_than_120_characters(template: Path) -> None:
    lines = template.read_text().splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []
