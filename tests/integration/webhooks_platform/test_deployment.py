"""The deployment (Dockerfile, .dockerignore, docker-compose.yml) fits the code it deploys. None of it needs Docker.

The compose file is also read as text, for what a parser would hide, and by Docker Compose where there is one.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from tests.deployment import PROCESSES, command, without
from webhooks_platform.local import programs
from webhooks_platform.local.environment import read_options
from webhooks_platform.local.folder import DataFolder

ROOT = Path(settings.BASE_DIR)
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
PROXY = (ROOT / "deploy/nginx.conf").read_text()
SECRETS = ["SECRET_KEY", "ENCRYPTION_KEYS", "POSTGRES_PASSWORD", "VALKEY_PASSWORD"]
VALUES = dict.fromkeys(SECRETS, "given")


def services() -> dict[str, str]:
    """Each service's part of the compose file."""
    text = COMPOSE.partition("\nservices:\n")[2].partition("\nvolumes:\n")[0].partition("\nnetworks:\n")[0]
    _, *parts = re.split(r"^  (\w+):\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def environment() -> set[str]:
    block = COMPOSE.partition("x-environment: &environment\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^  ([A-Z_]+):", block, re.MULTILINE))


@pytest.fixture(scope="module")
def compose() -> list[str]:
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and subprocess.run([*words, "version"], capture_output=True).returncode == 0:
            return words
    pytest.skip("neither `docker compose` nor `docker-compose` is installed here")


def configure(compose: list[str], values: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if name not in SECRETS}
    # The developer's own `.env` must not stand in for a missing value.
    (folder / "empty.env").touch()
    files = ["--env-file", str(folder / "empty.env"), "--file", str(ROOT / "docker-compose.yml")]
    return subprocess.run(
        [*compose, *files, "config", "--quiet"], env=inherited | values, capture_output=True, text=True
    )


def test_docker_compose_accepts_the_file(compose: list[str], tmp_path: Path) -> None:
    answer = configure(compose, VALUES, tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


@pytest.mark.parametrize("missing", SECRETS)
def test_docker_compose_asks_for_a_missing_secret_by_name(compose: list[str], missing: str, tmp_path: Path) -> None:
    answer = configure(compose, {name: value for name, value in VALUES.items() if name != missing}, tmp_path)
    assert answer.returncode != 0
    assert f"set {missing}" in answer.stderr


def test_no_secret_has_a_default() -> None:
    used = [(name, rest) for name, rest in re.findall(r"\$\{(\w+)([^}]*)\}", COMPOSE) if name in SECRETS]
    assert {name for name, _ in used} == set(SECRETS)
    assert [name for name, rest in used if not rest.startswith(f":?set {name}")] == []


def test_no_secret_is_written_into_the_deployment() -> None:
    given = dict(re.findall(r"^ +(\w*(?:SECRET|PASSWORD|ENCRYPTION)\w*): (.*)$", COMPOSE, re.MULTILINE))
    assert given.keys() == {"SECRET_KEY", "ENCRYPTION_KEYS", "PGPASSWORD", "POSTGRES_PASSWORD"}
    assert [name for name, value in given.items() if not re.match(r"(&password )?\$\{|\*password$", value)] == []
    assert re.findall(r"^(?:ENV|ARG) .*(?:SECRET|PASSWORD|ENCRYPTION).*$", DOCKERFILE, re.MULTILINE) == []


def test_every_setting_reaches_every_process() -> None:
    read = set(re.findall(r"env\.\w+\(\s*[\"']([A-Z_]+)[\"']", (ROOT / "webhooks_platform/settings.py").read_text()))
    # DEBUG and fail points stay out of a deployment; libpq itself reads PGPASSWORD, and OpenSSL SSL_CERT_FILE.
    kept_out = {"DEBUG", "FAIL_POINTS_DIR", "FAIL_POINTS_ALLOWED"}
    assert environment() == read - kept_out | {"PGPASSWORD", "SSL_CERT_FILE"}, (
        "x-environment in docker-compose.yml lists every setting"
    )


def test_the_services_run_the_commands_of_make_up(tmp_path: Path) -> None:
    places = ["--host", "--port", "--workers", "--hostname", "--schedule"]  # where a process lives, not what it does
    local = programs.platform(DataFolder(tmp_path), {}, read_options({"DELIVERY_WORKERS": "1"}))
    expected = {program.name.rstrip("1"): without(list(program.command)[1:], *places) for program in local}
    assert {name: without(command(name)[1:], *places) for name in PROCESSES} == expected


def test_the_services_run_programs_that_the_image_holds() -> None:
    locked = re.findall(r"^([\w.-]+)==", (ROOT / "locks/runtime.txt").read_text(), re.MULTILINE)
    for service in PROCESSES:
        assert command(service)[:2] == ["python", "-m"]
        program = command(service)[2]
        # A package of the lock, or a module of the platform itself.
        assert program in locked or (ROOT / f"{program.replace('.', '/')}.py").is_file()
    assert command("migrate")[:3] == ["python", "manage.py", "migrate"]


def test_every_service_that_stays_has_a_health_check() -> None:
    assert [name for name, text in services().items() if "    healthcheck:" not in text] == ["migrate"]


def test_the_image_is_made_of_the_platform_and_nothing_else() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    own_apps = {name for name in settings.INSTALLED_APPS if (ROOT / name).is_dir()}
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules[0] == "*"
    assert allowed == own_apps | {"manage.py", "locks/runtime.txt", "templates"}
    # `make up` is for a clone. A rule after the one that lets its folder in keeps it out.
    assert rules.index("webhooks_platform/local") > rules.index("!webhooks_platform")
    assert "webhooks_platform/local" not in DOCKERFILE


def test_everything_the_image_copies_exists() -> None:
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)]
    assert copied
    assert [source for sources in copied for source in sources if not (ROOT / source).exists()] == []


# ── Hardened ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def networks(service: str) -> set[str]:
    """Those it names itself, or those of every process."""
    given = re.search(r"^    networks: \[(.*)\]$", services()[service], re.MULTILINE)
    return set(given[1].split(", ")) if given else {"internal"}


def size(text: str) -> int:
    factors = {"k": 1024, "m": 1024 * 1024}
    return int(text[:-1]) * factors[text[-1]]


def test_only_the_proxy_is_published_and_it_reaches_the_web_server_alone() -> None:
    assert [name for name, text in services().items() if "    ports:" in text] == ["proxy"]
    assert {name for name in services() if networks(name) & networks("proxy")} == {"proxy", "web"}
    assert networks("db") == networks("redis") == networks("migrate") == networks("beat") == {"internal"}
    assert {name for name in services() if "egress" in networks(name)} == {"web", "deliveries", "background"}
    for network in ("internal", "edge"):
        assert f"  {network}: {{internal: true}}" in COMPOSE


def test_every_image_can_be_pinned_by_a_digest() -> None:
    images = re.findall(r"^    image: (.*)$", COMPOSE, re.MULTILINE)
    assert len(images) == 3
    assert [image for image in images if not re.match(r"\$\{[A-Z]+_IMAGE:-[a-z/]+:[\d.]+\}$", image)] == []
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2


def test_what_stays_writes_nothing_down_and_has_no_capabilities_but_the_database() -> None:
    platform = COMPOSE.partition("x-platform: &platform\n")[2].partition("\n\n")[0]
    parts = {name: platform + text if "<<: *platform" in text else text for name, text in services().items()}
    assert [name for name, text in parts.items() if "read_only: true" not in text] == ["db"]
    assert [name for name, text in parts.items() if "cap_drop: [ALL]" not in text] == ["db"]
    assert "USER 10001:10001" in DOCKERFILE


def test_the_proxy_takes_in_bodies_and_its_limits_are_those_of_the_settings() -> None:
    assert "proxy_request_buffering on;" in PROXY
    assert "proxy_request_buffering off" not in PROXY
    allowed = dict(re.findall(r"location (?:= |~ )?(\S+) \{\n\s+client_max_body_size (\w+);", PROXY))
    assert {path: size(limit) for path, limit in allowed.items()} == {
        "/api/": settings.MAX_BODY_BYTES,
        "^/api/v1/events/batch/?$": settings.MAX_BATCH_BODY_BYTES,
        "/portal/signatures/": 4 * settings.MAX_BODY_BYTES,
    }
    everywhere = re.findall(r"^    client_max_body_size (\w+);", PROXY, re.MULTILINE)
    assert [size(limit) for limit in everywhere] == [settings.MAX_PAGE_BODY_BYTES]


@pytest.mark.parametrize(
    "limit",
    ["client_header_timeout", "client_body_timeout", "send_timeout", "limit_conn addresses", "proxy_connect_timeout"],
)
def test_the_proxy_has_a_limit_for_every_way_of_being_slow(limit: str) -> None:
    assert re.findall(rf"^ +{limit} \d+s?;", PROXY, re.MULTILINE)
