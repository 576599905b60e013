"""Checks the chart as far as that goes without a cluster: helm lint, helm template, kubeconform (`make chart`).

The schemas are made from the API's own description in the Go module k8s.io/kubernetes, and KEDA's from its module,
since a check should need no other host than a registry of packages.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "webhooks"
KUBERNETES = "1.33.0"
KEDA = "2.21.0"
KINDS = ["Deployment", "Service", "Ingress", "Job", "PodDisruptionBudget", "NetworkPolicy", "HorizontalPodAutoscaler"]
VARIANTS: dict[str, list[str]] = {
    "as it comes": [],
    "KEDA": ["autoscaling.kind=keda", "ingress.enabled=true", "ingress.tlsSecret=tls"],
    "external metric, no policies": ["autoscaling.kind=external", "networkPolicy.enabled=false"],
    "past a pooler": ["migrations.databaseUrlKey=DIRECT_URL", "settings.DATABASE_TRANSACTION_POOLING=true"],
}


def tool(name: str) -> str:
    """From the PATH, or from where `go install` puts it."""
    gobin = os.environ.get("GOBIN") or str(Path.home() / "go" / "bin")
    found = shutil.which(name) or shutil.which(name, path=gobin)
    if found is None:
        packages = {"helm": "helm.sh/helm/v3/cmd/helm", "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"}
        sys.exit(f"{name} is not installed. With Go: go install {packages[name]}@latest")
    return found


def rendered(values: list[str]) -> str:
    words = [part for value in ["existingSecret=webhooks", *values] for part in ("--set", value)]
    command = [tool("helm"), "template", "webhooks", str(CHART), "--kube-version", KUBERNETES]
    return subprocess.run([*command, *words], check=True, capture_output=True, text=True).stdout


def write_schemas(folder: Path) -> None:
    """A file for each kind that has a version, complete in itself and strict about unknown fields."""
    swagger = _module(f"k8s.io/kubernetes@v{KUBERNETES}") / "api" / "openapi-spec" / "swagger.json"
    definitions = json.loads(swagger.read_text())["definitions"]
    for definition in definitions.values():
        for each in definition.get("x-kubernetes-group-version-kind", []):
            if each["kind"] in KINDS:
                group = each["group"].split(".")[0]
                name = "-".join(part for part in (each["kind"].lower(), group, each["version"]) if part)
                (folder / f"{name}.json").write_text(json.dumps(_whole(definitions, definition)))
    crd = _module(f"github.com/kedacore/keda/v2@v{KEDA}") / "config" / "crd" / "bases" / "keda.sh_scaledobjects.yaml"
    [version] = yaml.safe_load(crd.read_text())["spec"]["versions"]
    (folder / "scaledobject-keda-v1alpha1.json").write_text(json.dumps(_strict(version["schema"]["openAPIV3Schema"])))


def _whole(definitions: dict[str, Any], node: Any) -> Any:
    if isinstance(node, list):
        return [_whole(definitions, each) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _whole(definitions, definitions[node["$ref"].removeprefix("#/definitions/")])
    if node.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    found = {name: _whole(definitions, each) for name, each in node.items() if name != "description"}
    return _strict_here(found)


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(each) for each in node]
    return _strict_here({name: _strict(each) for name, each in node.items()}) if isinstance(node, dict) else node


def _strict_here(node: dict[str, Any]) -> dict[str, Any]:
    is_open = "additionalProperties" in node or "x-kubernetes-preserve-unknown-fields" in node
    return node if "properties" not in node or is_open else {**node, "additionalProperties": False}


def _module(name: str) -> Path:
    done = subprocess.run(["go", "mod", "download", "-json", name], capture_output=True, text=True, cwd="/")
    answer = json.loads(done.stdout or "{}")
    if "Dir" not in answer:
        sys.exit(f"{name} could not be fetched: {answer.get('Error', done.stderr)}")
    return Path(answer["Dir"])


def main(schemas: Path) -> None:
    subprocess.run([tool("helm"), "lint", "--strict", str(CHART), "--set", "existingSecret=webhooks"], check=True)
    schemas.mkdir(parents=True, exist_ok=True)
    write_schemas(schemas)
    location = str(schemas / "{{.ResourceKind}}{{.KindSuffix}}.json")
    for title, values in VARIANTS.items():
        print(f"{title}:", flush=True)  # noqa: T201
        check = [tool("kubeconform"), "-strict", "-summary", "-schema-location", location]
        subprocess.run(check, input=rendered(values), text=True, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".data/schemas").resolve())
