"""Known vulnerabilities of what locks/runtime.txt installs, by pip-audit. `make audit-deps`, and a step of .ci/run.

Exits with 1 where there are any. Where nobody can be asked (no network, an index that knows no advisories) it warns and
exits with 0: that says nothing about the code.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [
    sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "locks" / "runtime.txt"), "--require-hashes",
    "--disable-pip", "--timeout", "10", "--progress-spinner", "off", "--format", "json",
]  # fmt: skip
SECONDS = 120


def main() -> int:
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=SECONDS, check=False)
        dependencies = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return warn("The advisory service did not answer; nothing was audited.")
    audited = [one for one in dependencies if "vulns" in one]
    if not audited:
        return warn("The advisory service knows none of our dependencies; nothing was audited.")
    found = [(one["name"], one["version"], vulnerability) for one in audited for vulnerability in one["vulns"]]
    for name, version, vulnerability in found:
        fixed = ", ".join(vulnerability.get("fix_versions", [])) or "none yet"
        print(f"{name} {version}: {vulnerability['id']} (fixed in: {fixed})")
    print(f"{len(audited)} of {len(dependencies)} dependencies audited, {len(found)} known vulnerabilities.")
    return 1 if found else 0


def warn(text: str) -> int:
    print(f"warning: {text}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
