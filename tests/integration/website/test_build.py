"""The docs as a site: built without a warning, with nothing from a foreign host, every page found."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deliveries.portal.snippets import snippets
from tests.deployment import ROOT
from website import build

FOREIGN = re.compile(
    r"""(?:src|srcset)=["']?(?:https?:)?//|<link[^>]+href=["']?(?:https?:)?//|@import|url\(["']?(?:https?:)?//"""
)


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("website")
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "website.build", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def test_every_page_is_built_and_stands_in_a_chapter_or_is_linked(html: Path) -> None:
    assert [name for name in build.pages().values() if not (html / f"{name}.html").is_file()] == []
    listed = [name for names in build.chapters().values() for name in names]
    assert len(listed) == len(set(listed)) > 30
    assert {name for name in build.pages().values() if not name.startswith("decisions/0")} == {"index", *listed} - {
        "reference"
    }


def test_no_page_loads_anything_from_elsewhere(html: Path) -> None:
    files = [path for path in html.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 40
    assert [path.name for path in files if FOREIGN.search(path.read_text())] == []


def test_receivers_in_eight_languages_are_those_of_the_portal(html: Path) -> None:
    text = (html / "receiving.html").read_text()
    words = [re.sub(r"\W", "", each.code) for each in snippets(scheme="standard", url="http://127.0.0.1:8001/")]
    page = re.sub(r"\W", "", re.sub(r"&\w+;|&#\d+;", "", re.sub(r"<[^>]+>", "", text)))
    assert len(words) == 8
    assert [code[:80] for code in words if code[-40:] not in page and code[:40] not in page] == []


def test_programs_that_read_find_every_chapter_in_llms_txt(html: Path) -> None:
    named = re.findall(r"\((\S+)\.html\)", (html / "llms.txt").read_text())
    assert named == [name for names in build.chapters().values() for name in names]
