"""Rules of the house that no linter knows: where files go, how they are named, how long they get."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("deliveries", "subscriptions", "webhooks_platform", "benchmarks")
MAX_TEST_LINES = 500
# Longer than they should be, until each is split.
TOO_LONG = {
    "tests/integration/deliveries/api/test_events.py",
    "tests/integration/deliveries/test_deliver.py",
    "tests/integration/deliveries/health/test_lifecycle.py",
    "tests/integration/deliveries/test_replay.py",
    "tests/integration/every_route/test_bad_input.py",
}
# One event's way from POST to settled, and what Django asks an app for.
WALK = {
    *("ingest", "bell", "claim", "deliver", "sign", "send", "retry", "settle", "sweep", "replay"),
    *("__init__", "admin", "apps", "models", "states", "tasks"),
}
# Folders of tests that belong to no single folder of the product.
ACROSS = {"every_route"}
VAGUE = {"utils", "helpers", "services", "managers", "common", "misc"}
# Names that alluded, and what is said instead.
ALLUDING = {
    "beliefs": "cache",
    "deed": "action",
    "deeds": "actions",
    "door": "admission, session or address",
    "farewell": "close_thread_connections",
    "mind_the_feed": "advance_feed_horizon",
    "quickly": "what makes it quick",
    "rehearse": "simulate",
    "said_elsewhere": "translated",
    "together": "merged, or group_commit",
}
# Names of classes that may stand in several places: Django and argparse look for them.
ASKED_FOR = {"Command", "Meta"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_no_file_of_tests_is_longer_than_500_lines() -> None:
    long = {str(path) for path in python_files("tests") if line_count(path) > MAX_TEST_LINES}
    assert long - TOO_LONG == set()


def test_tests_lie_where_the_code_they_test_lies() -> None:
    folders = {path.parent for path in python_files("tests/unit", "tests/integration")}
    mirrored = {Path(*folder.parts[2:]) for folder in folders if folder.parts[2:]}
    assert {str(folder) for folder in mirrored if not (ROOT / folder).is_dir()} == ACROSS


def test_every_folder_of_code_is_a_package() -> None:
    folders = {path.parent for path in python_files("tests", *PRODUCT)}
    assert {str(folder) for folder in folders if not (ROOT / folder / "__init__.py").is_file()} == set()


def test_beside_the_folders_deliveries_holds_the_walk_and_nothing_else() -> None:
    assert {path.stem for path in (ROOT / "deliveries").glob("*.py")} - WALK == set()


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    named = {part.removesuffix(".py") for path in python_files("tests", *PRODUCT) for part in path.parts}
    assert named & VAGUE == set()


def test_no_name_alludes_to_what_it_could_say() -> None:
    found = {
        f"{path}: {name}, say {ALLUDING[part]}"
        for path in python_files("tests", *PRODUCT)
        for name in defined_names(path)
        for part in (name.strip("_").lower(), *name.lower().split("_"))
        if part in ALLUDING and not name.startswith("test_")
    }
    assert found == set()


def test_a_class_of_the_product_has_its_name_to_itself() -> None:
    paths = [path for path in python_files(*PRODUCT) if "migrations" not in path.parts]
    owners: dict[str, list[str]] = {}
    for path in paths:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(str(path))
    shared = {name: where for name, where in owners.items() if len(where) > 1 and name not in ASKED_FOR}
    assert shared == {}


def defined_names(path: Path) -> set[str]:
    """Functions, classes, arguments, and variables of a file, and the file itself."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | {path.stem}


def line_count(path: Path) -> int:
    return len((ROOT / path).read_text().splitlines())
