"""`make planted`: faults planted in the code of a copy of this tree, and who notices them.

    make planted                       # all of them
    make planted ONLY=sweep-off        # one

Each plant is a small edit of the product. It is applied to a temporary copy, never to this tree, and then those who
should notice run there: the harness (`make faults` with the faults named), the property test of the ledger, or a test
of that very thing. Not part of `make test`, which only checks that every plant still fits the code it edits.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TAIL = 3


@dataclass(frozen=True)
class Edit:
    """`old` stands in the file exactly once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Plant:
    name: str
    what: str
    edits: tuple[Edit, ...]
    # Faults of the catalogue under which the harness should notice.
    faults: tuple[str, ...] = ()
    # Tests that should notice.
    tests: tuple[str, ...] = ()
    # Who cannot, and why.
    blind: dict[str, str] = field(default_factory=dict)


CLAIMS = "tests/integration/deliveries/test_claim.py"
PROPERTIES = "tests/integration/deliveries/test_ledger_properties.py"

PLANTS = {
    plant.name: plant
    for plant in (
        Plant(
            "settle-guard",
            "a settlement no longer looks whether its attempt is still waited for",
            (
                Edit(
                    "deliveries/settle.py",
                    "            AND delivery.state = given.state_before AND delivery.attempt_count = given.number\n",
                    "",
                ),
            ),
            faults=("worker-frozen",),
            tests=(PROPERTIES,),
        ),
        Plant(
            "release-guard",
            "a delivery given back twice takes it from whoever has claimed it in between",
            (Edit("deliveries/pump/release.py", "\n        AND delivery.due_at = given.due_at", ""),),
            tests=(PROPERTIES,),
            blind={"harness": "it would have to lose the answer to a commit, and to run out of files at the same time"},
        ),
        Plant(
            "sweep-off",
            "nobody puts back what dead workers held",
            (
                Edit(
                    "deliveries/sweep.py",
                    "    recovered = 0\n    while True:\n",
                    "    recovered = 0\n    while recovered:\n",
                ),
            ),
            faults=("worker-after-claim",),
            tests=(PROPERTIES,),
        ),
        Plant(
            "bell-before-commit",
            "pumps are told of an event before it is committed, and not again after",
            (
                Edit(
                    "deliveries/accepting/group_commit.py",
                    '        fail_points.reach("accept.before_commit")\n',
                    '        bell.ring_members(ready)\n        fail_points.reach("accept.before_commit")\n',
                ),
                Edit(
                    "deliveries/accepting/group_commit.py",
                    "    bell.ring_members(ready)\n    ingest.log_accepted(",
                    "    ingest.log_accepted(",
                ),
            ),
            faults=("commits-slowly",),
            tests=("tests/faults/test_bell.py",),
            blind={"property test": "the bell is no part of the ledger"},
        ),
        Plant(
            "idempotency-outside",
            "an event and its idempotency record are committed one after the other",
            (
                Edit(
                    "deliveries/accepting/group_commit.py",
                    "    with _transaction(group):\n        try:\n",
                    "    from contextlib import nullcontext\n\n    with nullcontext():\n        try:\n",
                ),
            ),
            faults=("web-before-commit",),
            blind={"property test": "it accepts without a key, by the function below the one that keeps records"},
        ),
        Plant(
            "cap-before-lock",
            "what is in flight is counted by the statement that locks, so under a snapshot from before the lock",
            (
                Edit(
                    "deliveries/claim.py",
                    "string_agg(endpoint_id::text, ','), ''), true), array_agg(endpoint_id)\n    FROM (\n"
                    "        SELECT endpoint_id FROM subscriptions_lane\n",
                    "string_agg(endpoint_id::text, ','), '') || left(set_config('webhooks.flying',"
                    " coalesce(json_object_agg(endpoint_id, flying), '{}')::text, true), 0), true),"
                    " array_agg(endpoint_id)\n    FROM (\n        SELECT endpoint_id, (SELECT count(*) FROM"
                    " deliveries_delivery WHERE endpoint_id = subscriptions_lane.endpoint_id AND state = 'in_flight')"
                    " AS flying FROM subscriptions_lane\n",
                ),
                Edit(
                    "deliveries/claim.py",
                    "                SELECT count(*) FROM deliveries_delivery\n"
                    "                WHERE endpoint_id = endpoint.id AND state = {IN_FLIGHT}\n",
                    "                SELECT (current_setting('webhooks.flying')::json ->> endpoint.id::text)::int\n",
                ),
            ),
            faults=("postgres-stutters",),
            blind={"property test": "its steps come one after the other, and this is a race"},
            tests=(f"{CLAIMS}::test_the_bulkhead_is_exact_whoever_claims_at_the_same_moment",),
        ),
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make planted")
    parser.add_argument("--only", default="", help="names, separated by commas")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(PLANTS)
    missed = [name for name in names if not _try(PLANTS[name])]
    _say(f"noticed: {len(names) - len(missed)} of {len(names)}" + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


def _try(plant: Plant) -> bool:
    """Whether anybody notices. Everybody is asked, so that the output says who does."""
    _say(f"{plant.name}: {plant.what}")
    with tempfile.TemporaryDirectory(prefix="planted") as name:
        tree = Path(name).resolve()
        tree.chmod(0o711)
        copy_tree(tree)
        for edit in plant.edits:
            apply(edit, tree)
        seen = [_ask(tree, "harness", ["-m", "tests.faults", *_harness(plant)])] if plant.faults else []
        seen += [_ask(tree, test, ["-m", "pytest", "-q", "-x", "--timeout", "600", test]) for test in plant.tests]
    for who, why in plant.blind.items():
        _say(f"    {who}: cannot notice: {why}")
    return any(seen)


def _harness(plant: Plant) -> list[str]:
    return ["--only", ",".join(plant.faults), "--seeds", "1,2,3", "--report", "no"]


def _ask(tree: Path, who: str, arguments: list[str]) -> bool:
    env = {**os.environ, "LEDGER_SHRINK": "no"}
    env.setdefault("LEDGER_EXAMPLES", "40")
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=env, capture_output=True, text=True, check=False, timeout=1800
    )
    _say(f"    {who}: {'noticed' if done.returncode else 'did not notice'}")
    for line in _reasons(done.stdout)[:_TAIL]:
        _say(f"        {line[:200]}")
    return done.returncode != 0


def _reasons(output: str) -> list[str]:
    return [line.strip() for line in output.splitlines() if line.strip().startswith(("✘", "E  "))]


def copy_tree(target: Path) -> None:
    """What git knows of, as it stands here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.rstrip("\0").split("\0"):
        source, place = ROOT / name, target / name
        if source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)


def apply(edit: Edit, tree: Path) -> None:
    path = tree / edit.path
    text = path.read_text()
    if text.count(edit.old) != 1:
        raise ValueError(f"{edit.path} no longer holds what this plant edits exactly once:\n{edit.old}")
    path.write_text(text.replace(edit.old, edit.new))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
