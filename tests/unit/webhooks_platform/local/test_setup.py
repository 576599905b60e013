"""What `make up` reads and writes before it starts anything."""

import base64
from pathlib import Path

import pytest

from webhooks_platform.local.environment import load_env_file, read_options
from webhooks_platform.local.first_event import curl_line
from webhooks_platform.local.folder import SetupError
from webhooks_platform.local.supervisor import restart_delay
from webhooks_platform.local.tail import Tail

WRITTEN = ["SECRET_KEY", "ENCRYPTION_KEYS", "DELIVERY_ALLOWED_NETWORKS", "LOG_FORMAT"]


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / ".env"
    for name in WRITTEN:
        # Set first, so that what load_env_file puts in is taken out again after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("ENV_FILE", str(path))
    return path


def entries(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_the_first_start_writes_fresh_secrets_that_only_the_owner_can_read(env_file: Path) -> None:
    assert load_env_file() == env_file
    found = entries(env_file)
    assert list(found) == WRITTEN
    assert env_file.stat().st_mode & 0o777 == 0o600
    assert len(found["SECRET_KEY"]) >= 50
    key_id, _, key = found["ENCRYPTION_KEYS"].partition(":")
    assert (key_id, len(base64.b64decode(key))) == ("k1", 32)
    assert found["DELIVERY_ALLOWED_NETWORKS"] == "127.0.0.0/8,::1/128"


def test_the_second_start_changes_nothing(env_file: Path) -> None:
    load_env_file()
    before = env_file.read_bytes()
    assert load_env_file() is None
    assert env_file.read_bytes() == before


def test_a_file_of_ones_own_keeps_its_lines_and_gets_what_it_lacks(env_file: Path) -> None:
    env_file.write_text("SECRET_KEY=mine\nDELIVERY_ALLOWED_NETWORKS=")
    load_env_file()
    found = entries(env_file)
    assert list(found) == ["SECRET_KEY", "DELIVERY_ALLOWED_NETWORKS", "ENCRYPTION_KEYS", "LOG_FORMAT"]
    assert found["SECRET_KEY"] == "mine"
    assert found["DELIVERY_ALLOWED_NETWORKS"] == ""


def test_what_the_environment_gives_is_not_written(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "from outside")
    load_env_file()
    assert "SECRET_KEY" not in entries(env_file)


def test_options_have_defaults_and_the_receiver_follows_the_port() -> None:
    options = read_options({"PORT": "8100"})
    assert (options.port, options.receiver_port, options.delivery_workers) == (8100, 8101, 2)
    assert options.url == "http://127.0.0.1:8100"
    assert read_options({"HOST": "0.0.0.0"}).url == "http://127.0.0.1:8000"
    assert read_options({"HOST": "::"}).url == "http://[::1]:8000"


@pytest.mark.parametrize("text", ["http", "0", "65536", "-1", "8000.5"])
def test_a_port_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(SetupError, match=f"PORT={text} makes no sense"):
        read_options({"PORT": text})


def test_a_crashing_program_waits_longer_each_time_and_starts_over_after_a_healthy_while() -> None:
    delay, delays = 0.0, []
    for _ in range(7):
        delay = restart_delay(delay, lived_seconds=1)
        delays.append(delay)
    assert delays == [0.5, 1, 2, 4, 8, 10, 10]
    assert restart_delay(10, lived_seconds=29.9) == 10
    assert restart_delay(10, lived_seconds=30) == 0.5


def test_the_curl_line_is_one_line_with_the_key_and_the_right_port() -> None:
    line = curl_line("http://127.0.0.1:8100", "whk_p_x")
    assert "\n" not in line
    assert line.startswith("curl -sS http://127.0.0.1:8100/api/v1/events/ -H 'Authorization: Bearer whk_p_x'")


def test_a_tail_gives_each_new_whole_line_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("before\n")
    tail = Tail(log)
    with log.open("a") as file:
        file.write("one\ntwo\nhal")
        file.flush()
        assert tail.saw("two")
        assert tail.new_lines() == ["one", "two"]
        file.write("f\n")
    assert tail.new_lines() == ["half"]
    assert tail.new_lines() == []
