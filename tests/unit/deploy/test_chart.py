"""deploy/helm/: the chart runs what docker-compose.yml runs, refuses what the platform refuses, and holds no secret.

Without helm, what can be seen in its files; `make chart` renders it and checks it against the schemas of Kubernetes.
"""

import re
from ipaddress import IPv6Network, ip_network

import pytest
import yaml

from subscriptions.guards import urls
from tests.deployment import ROOT, command, seconds, services, without

CHART = ROOT / "deploy" / "helm" / "webhooks"
TEMPLATES = {path.name: path.read_text() for path in (CHART / "templates").glob("*.yaml")}
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
EVERY = "\n".join([*TEMPLATES.values(), (CHART / "templates" / "_helpers.tpl").read_text()])


def words_of(component: str) -> list[str]:
    """What `$component := …` of workers.yaml says, common options included."""
    variables = dict(re.findall(r"\{\{- \$(\w+) := (.*?) \}\}", TEMPLATES["workers.yaml"]))
    words = re.findall(r'"([^"]*)"', variables[component])
    return words + (re.findall(r'"([^"]*)"', variables["common"]) if "$common" in variables[component] else [])


@pytest.mark.parametrize("component", ["deliveries", "background", "beat"])
def test_a_worker_runs_the_command_of_its_compose_service(component: str) -> None:
    assert ["python", "-m", "celery", "--app", "webhooks_platform", *words_of(component)] == command(component)


def test_the_web_server_and_the_migrations_run_what_the_image_and_compose_say() -> None:
    assert "command:" not in TEMPLATES["web.yaml"].replace("exec: {command:", "")
    assert "command: [python, manage.py, migrate, --noinput]" in TEMPLATES["migrations.yaml"]
    assert without(command("migrate")) == ["python", "manage.py", "migrate", "--noinput"]


def test_a_worker_has_as_long_to_stop_as_under_compose() -> None:
    [patience] = re.findall(r"ternary 10 (\d+)", TEMPLATES["workers.yaml"])
    assert int(patience) == seconds(services()["deliveries"]["stop_grace_period"])


def test_the_network_policy_refuses_what_the_platform_refuses() -> None:
    reachable6 = IPv6Network("2000::/3")
    refused = [network for network in urls.REFUSED if network.version == 4]
    refused6 = [
        network for network in urls.REFUSED if isinstance(network, IPv6Network) and network.subnet_of(reachable6)
    ]
    policy = VALUES["networkPolicy"]
    assert {ip_network(text) for text in policy["refused4"]} == set(refused)
    within = {ip_network(text) for text in policy["refused6"]}
    assert within == set(refused6) | {urls.SIX_TO_FOUR}
    assert "cidr: 2000::/3" in TEMPLATES["networkpolicy.yaml"]


def test_secrets_come_by_reference_and_there_is_no_default() -> None:
    assert VALUES["existingSecret"] == ""
    assert "kind: Secret" not in EVERY
    assert [name for name in VALUES["settings"] if re.search(r"SECRET|KEY|PASSWORD|TOKEN|URL", name)] == []


def test_containers_may_do_as_little_as_under_compose() -> None:
    for line in (
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "capabilities: {drop: [ALL]}",
        "runAsNonRoot: true",
        "automountServiceAccountToken: false",
    ):
        assert EVERY.count(line) == 1


def test_nothing_is_restarted_because_a_server_beneath_is_away() -> None:
    probes = re.findall(r"(livenessProbe|startupProbe):\n +httpGet: (\S+)", TEMPLATES["web.yaml"])
    assert probes == [("startupProbe", "&alive"), ("livenessProbe", "*alive")]
    assert "&alive {path: /healthz" in TEMPLATES["web.yaml"]
    assert "livenessProbe" not in TEMPLATES["workers.yaml"]


def test_pumps_are_scaled_by_the_age_of_what_is_due() -> None:
    assert TEMPLATES["autoscaling.yaml"].count("webhooks_oldest_due_seconds") == 2
    assert "`webhooks_oldest_due_seconds`" in (ROOT / "docs" / "metrics.md").read_text()
