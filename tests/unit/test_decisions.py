"""docs/decisions: every record is short, dated, numbered and listed, and a superseded one names its successor."""

import re
from datetime import date
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path != INDEX)
MAX_WORDS = 200

every_record = pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)


def field(record: Path, name: str) -> str | None:
    """The rest of the record's one line `name: …`, or None where it has no such line."""
    values = re.findall(rf"^{name}: (.+)$", record.read_text(), re.MULTILINE)
    assert len(values) <= 1, f"{record.name} has several lines `{name}:`"
    return values[0] if values else None


def title(record: Path) -> str:
    return record.read_text().split("\n", 1)[0].removeprefix("# ")


def word_count(text: str) -> int:
    """Words between blanks; the bars of a table and the marks of a heading are none."""
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def reference(record: Path) -> str:
    return f"{record.name[:4]}, [{title(record)}]({record.name})"


def test_numbers_count_up_from_one_without_a_gap() -> None:
    assert RECORDS
    assert [record.name[:5] for record in RECORDS] == [f"{number:04}-" for number in range(1, len(RECORDS) + 1)]


def test_records_are_numbered_in_the_order_of_their_dates() -> None:
    dates = [field(record, "Date") or "" for record in RECORDS]
    assert dates == sorted(dates)


@every_record
def test_a_record_has_a_title_a_date_and_a_status(record: Path) -> None:
    assert re.match(r"# \S.+\n", record.read_text())
    written = field(record, "Date") or ""
    assert date.fromisoformat(written).isoformat() == written
    assert re.fullmatch(r"accepted|superseded by \d{4}, \[.+\]\(.+\)", field(record, "Status") or "")


@every_record
def test_a_record_gives_context_decision_and_cost(record: Path) -> None:
    headings = re.findall(r"^## (.+)$", record.read_text(), re.MULTILINE)
    assert headings in (["Context", "Decision", "Cost"], ["Context", "Decision", "Cost", "Rejected"])


@every_record
def test_a_record_has_at_most_200_words(record: Path) -> None:
    assert word_count(record.read_text()) <= MAX_WORDS


@every_record
def test_links_to_other_records_lead_to_a_file(record: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", record.read_text())
    assert [link for link in links if not (FOLDER / link).is_file()] == []


def test_a_superseded_record_and_its_later_successor_name_each_other() -> None:
    successors = {
        (old.name, new.name)
        for old in RECORDS
        for new in RECORDS
        if field(old, "Status") == f"superseded by {reference(new)}" and old < new
    }
    predecessors = {
        (old.name, new.name) for old in RECORDS for new in RECORDS if field(new, "Supersedes") == reference(old)
    }
    assert successors == predecessors
    assert {old for old, _ in successors} == {
        record.name for record in RECORDS if (field(record, "Status") or "").startswith("superseded")
    }
    assert {new for _, new in predecessors} == {record.name for record in RECORDS if field(record, "Supersedes")}


def test_the_index_lists_each_record_once_in_order_as_it_is() -> None:
    rows = [row for row in INDEX.read_text().splitlines() if row.startswith("| [")]
    assert rows == [
        f"| [{record.name[:4]}]({record.name}) | {title(record)} | {field(record, 'Date')} | "
        f"{(field(record, 'Status') or '').split(',')[0]} |"
        for record in RECORDS
    ]
