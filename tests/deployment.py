"""What the deployment's files say: the services of docker-compose.yml, and the command of each."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PROCESSES = ["web", "deliveries", "background", "beat"]


def services() -> dict[str, Any]:
    """Those of docker-compose.yml, with what they share filled in."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def command(service: str) -> list[str]:
    """What it runs; `web` runs what the image says."""
    dockerfile = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    image = re.search(r"^CMD (.*)$", dockerfile, re.MULTILINE)
    assert image
    words: list[str] = services()[service].get("command") or json.loads(image[1])
    return words


def without(words: list[str], *options: str) -> list[str]:
    """The words but these options, each of which takes one value."""
    return [word for before, word in zip(["", *words], words, strict=False) if not {word, before} & set(options)]


def seconds(text: str) -> int:
    """`45s` or `45`."""
    return int(text.removesuffix("s"))


def defaults() -> dict[str, str]:
    """The settings that come from the environment, with what stands behind `default=`."""
    source = (ROOT / "webhooks_platform" / "settings.py").read_text()
    found = re.findall(r"env\.\w+\(\s*[\"']([A-Z_]+)[\"'],[^)\n]*?default=(.*?)\)", source)
    names = re.findall(r"env\.\w+\(\s*[\"']([A-Z_]+)[\"']", source)
    return dict.fromkeys(names, "") | dict(found)
