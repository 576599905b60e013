"""deploy/: alerts and dashboard ask for what /metrics shows, and each alert has its runbook."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "webhooks.json"

NAME = re.compile(r"\bwebhooks_[a-z_]+\b")
# The names of docs/metrics.md, and what a histogram is asked for by.
TABLE_ROW = re.compile(r"^\| `(webhooks_[a-z_]+)` \|(.*)$", re.MULTILINE)


def documented() -> set[str]:
    rows = TABLE_ROW.findall((ROOT / "docs" / "metrics.md").read_text())
    names = {name for name, rest in rows if "histogram" not in rest}
    return names | {
        f"{name}_{part}" for name, rest in rows if "histogram" in rest for part in ("bucket", "count", "sum")
    }


def expressions() -> list[str]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    of_panels = [target["expr"] for panel in panels for target in panel["targets"]]
    # From `expr:` to the next key of the same rule.
    of_alerts = re.findall(r"^        expr: (.*?)^        (?:for|labels):", ALERTS.read_text(), re.M | re.S)
    return [*of_panels, *of_alerts]


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", ALERTS.read_text())


def test_metrics_md_names_all_that_is_promised() -> None:
    source = (ROOT / "deliveries" / "statistics" / "exposition.py").read_text()
    families = set(re.findall(r'_(?:counter|histogram)\(\s*"([a-z_]+)"', source))
    assert len(documented()) == 18
    for family in families:
        assert any(name.startswith(f"webhooks_{family}_") for name in documented()), family


def test_every_query_names_a_metric_that_there_is() -> None:
    assert len(expressions()) > 30
    for expression in expressions():
        asked = set(NAME.findall(expression))
        assert asked, expression
        assert asked <= documented(), expression


def test_no_query_adds_up_what_several_processes_tell_alike() -> None:
    """Every process tells of the whole cluster, so each name stands inside a `max` over the instances."""
    for expression in expressions():
        if expression.startswith("absent("):
            continue
        assert re.search(r"max (without \(instance\)|by \(version\))", expression), expression
        assert not re.search(r"\b(sum|avg|count)\b(?! without)", expression), expression


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    entries = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbooks.md").read_text(), re.M)
    assert entries == alerts()
    linked = re.findall(r"runbook_url: docs/runbooks.md#(\w+)", ALERTS.read_text())
    assert linked == [name.lower() for name in alerts()]


def test_every_alert_has_a_case_in_which_it_stays_silent_and_one_in_which_it_does_not() -> None:
    tests = (ALERTS.parent / "alerts.test.yml").read_text()
    assert re.findall(r"alertname: (\w+), exp_alerts: \[\]", tests) == alerts()
    fired = re.findall(r"labels: 'ALERTS\{alertname=\"(\w+)\",alertstate=\"firing\"", tests)
    assert set(fired) == set(alerts())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian's package prometheus)")
@pytest.mark.parametrize("arguments", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts.test.yml")])
def test_promtool_finds_nothing_wrong(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=ALERTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
