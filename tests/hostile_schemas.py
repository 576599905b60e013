"""Checks schemas and data in a process with little memory and little time, as a web process would.

Reads `[[schema, data], …]` from standard input and answers with a list of `refused`, `valid` or `invalid`. A schema
that takes too much of either ends the process, and the test that started it fails.
"""

import json
import resource
import subprocess
import sys
from typing import Any

from subscriptions.schemas.compiled import SchemaRefused, compiled

MEMORY_BYTES = 1 << 30
CPU_SECONDS = 60


def verdicts(cases: list[tuple[Any, Any]]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile_schemas"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-300:]}"
    found: list[str] = json.loads(done.stdout)
    return found


def _verdict(schema: Any, data: Any) -> str:
    try:
        return "valid" if compiled(schema).mismatch(data) is None else "invalid"
    except SchemaRefused:
        return "refused"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    sys.stdout.write(json.dumps([_verdict(schema, data) for schema, data in json.load(sys.stdin)]))
