"""clients/typescript: its own tests, and a walk against a running platform. Node alone runs what is committed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import IO, Any

import pytest

from subscriptions import keys
from subscriptions.models import Consumer, Role
from tests.stack import StartStack
from webhooks_platform.local.environment import BASE_DIR

PACKAGE = BASE_DIR / "clients" / "typescript"
OLDEST_NODE = 20
EMITTED_MEANWHILE = 120


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip(f"Node is not installed; {OLDEST_NODE} or later runs the tests of clients/typescript")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(re.sub(r"^v(\d+)\..*", r"\1", said)) < OLDEST_NODE:
        pytest.skip(f"Node is {said}, and clients/typescript needs {OLDEST_NODE} or later")
    return found


@pytest.mark.timeout(120)
def test_the_typescript_clients_own_tests_pass(node: str) -> None:
    files = [str(path.relative_to(PACKAGE)) for path in sorted((PACKAGE / "test").glob("*.test.js"))]
    done = subprocess.run([node, "--test", *files], cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert len(files) == 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(240)
def test_it_walks_from_an_event_type_to_a_replay_while_the_web_server_is_killed(
    node: str, acme: Consumer, start_stack: StartStack, tmp_path: Path
) -> None:
    stack = start_stack("web", "deliveries1", "background", "beat")
    env = {**os.environ, "WEBHOOKS_URL": stack.url, "OPERATOR_KEY": keys.issue(role=Role.OPERATOR)[1]}
    env["CONSUMER_KEY"] = keys.issue(role=Role.CONSUMER, consumer=acme)[1]
    complaints = tmp_path / "stderr"
    with (
        complaints.open("w") as stderr,
        subprocess.Popen(
            [node, "test/walk.js"], cwd=PACKAGE, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as walk,
    ):
        try:
            assert walk.stdout is not None
            steps = read(walk.stdout, until="emitting")
            stack.restart("web")
            steps |= read(walk.stdout)
        finally:
            walk.kill()
    assert list(steps)[-1] == "checkUp", complaints.read_text()

    numbers = [0, 1, 3, 4, *range(10, 10 + EMITTED_MEANWHILE)]
    assert steps == {
        "endpoints": {"all": True},
        "emit": {"sameId": True},
        "emitMany": {"results": ["accepted", "refused", "accepted", "accepted", "duplicate"]},
        "emitting": {},
        # Each once, whatever was answered or not.
        "feed": {"numbers": numbers},
        "received": {"timestamped": len(numbers), "standard": len(numbers), "refused": 0},
        "judged": {
            "reasons": ["wrong_signature", "wrong_signature", "wrong_time", "wrong_signature", "wrong_signature"]
        },
        "rotation": {"verifiesWith": [True, True]},
        "replay": {"matched": True, "newIds": 0},
        "follow": {"count": len(numbers) + 1},
        "problems": {"problems": [True, "invalid", True, "forbidden"]},
        "checkUp": {"verdicts": True},
    }


def read(lines: IO[str], *, until: str = "") -> dict[str, Any]:
    """What the steps said, by their names; to the end of the walk, or to this step."""
    steps: dict[str, Any] = {}
    for line in lines:
        said = json.loads(line)
        steps[said.pop("step")] = said
        if until in steps:
            break
    return steps
