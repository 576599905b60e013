"""tests/faults/planted.py: every plant still fits the code that it edits, and says who should notice."""

from pathlib import Path

import pytest

from tests.faults.harness.faults import FAULTS
from tests.faults.planted import PLANTS, ROOT, Edit, apply


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_fits_the_code_and_names_somebody_who_notices(name: str, tmp_path: Path) -> None:
    plant = PLANTS[name]
    for path in {edit.path for edit in plant.edits}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text())

    for edit in plant.edits:
        apply(edit, tmp_path)
        compile((tmp_path / edit.path).read_text(), edit.path, "exec")

    assert plant.faults or plant.tests
    assert set(plant.faults) <= set(FAULTS)
    assert all((ROOT / test.partition("::")[0]).is_file() for test in plant.tests)


def test_a_plant_that_no_longer_fits_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")

    with pytest.raises(ValueError, match=r"a\.py no longer holds what this plant edits"):
        apply(Edit("a.py", "two", "three"), tmp_path)
