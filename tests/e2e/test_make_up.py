"""`make up` from outside: a real process with its own folder and ports, the banner's curl line, kill -9, Ctrl-C."""

import os
import re
import signal
import socket
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.local import Stack, processes_of, running_stack, short_dir, wait_until
from webhooks_platform.local.folder import claim
from webhooks_platform.local.postgres import embedded_postgres
from webhooks_platform.local.valkey import embedded_valkey

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One for the tests that leave it running."""
    with short_dir() as home, running_stack(home) as stack:
        stack.wait_for_banner()
        yield stack


@pytest.fixture
def home() -> Iterator[Path]:
    with short_dir() as home:
        yield home


def test_the_banner_comes_with_one_event_delivered_and_verified(stack: Stack) -> None:
    event = re.search(r"✔ one event delivered and verified by the receiver: (evt_\w+)", stack.screen)
    assert event, stack.screen
    stack.wait_for(f"invoice.paid  {event[1]}  attempt 1  new")


def test_the_banner_s_curl_line_delivers_the_next_event(stack: Stack) -> None:
    event = stack.emit()
    stack.wait_for(f"invoice.paid  {event}  attempt 1  new", seconds=20)


def test_the_banner_s_login_opens_the_admin(stack: Stack) -> None:
    url, name, password = re.search(r"(http\S+/admin/)\s+(\S+) / (\S+)", stack.screen).groups()  # type: ignore[union-attr]
    cookies = CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    browser.open(url, timeout=20).close()
    token = next(cookie.value for cookie in cookies if cookie.name == "csrftoken")
    form = {"username": name, "password": password, "csrfmiddlewaretoken": token, "next": "/admin/"}
    with browser.open(f"{url}login/", urllib.parse.urlencode(form).encode(), timeout=20) as page:
        assert page.url == url
        assert "Log out" in page.read().decode()


def test_secrets_are_in_files_that_only_the_owner_can_read(stack: Stack) -> None:
    assert (stack.data_dir.parent / ".env").stat().st_mode & 0o777 == 0o600
    assert (stack.data_dir / "demo.json").stat().st_mode & 0o777 == 0o600


def test_a_second_start_says_that_one_is_running_and_leaves_it_alone(stack: Stack) -> None:
    second = Stack(stack.data_dir.parent)
    assert second.process.wait(30) == 1
    assert f"Already running at http://127.0.0.1:{stack.port} (pid {stack.process.pid})" in second.screen
    stack.wait_for(f"{stack.emit()}  attempt 1  new")


@pytest.mark.parametrize("name", ["deliveries1", "postgres", "valkey", "web", "receiver"])
def test_a_killed_process_is_started_again_and_events_are_delivered_afterwards(stack: Stack, name: str) -> None:
    pid = stack.pid_of(name)
    os.kill(pid, signal.SIGKILL)
    stack.wait_for(f"{name} was ended by signal 9 (Killed), starting it again in 0.5 s")
    wait_until(lambda: stack.pid_of(name) not in (0, pid))
    wait_until(stack.is_ready)
    stack.wait_for(f"{stack.emit()}  attempt")


def test_ctrl_c_leaves_no_process_behind_and_the_next_start_is_quick_and_keeps_the_data(home: Path) -> None:
    with running_stack(home) as first:
        first.wait_for_banner()
        before = first.emit()
        first.wait_for(f"{before}  attempt 1  new")
        assert first.press_ctrl_c() == 0
        assert processes_of(first.data_dir) == []
        assert "stopped; the data is kept" in first.screen

    begun_at = time.monotonic()
    with running_stack(home) as second:
        second.wait_for_banner()
        assert time.monotonic() - begun_at < 30  # about 7 on a quiet machine with two cores
        assert second.curl.split("Bearer ")[1].split("'")[0] == first.curl.split("Bearer ")[1].split("'")[0]
        assert second.get(f"/api/v1/events/{before}/deliveries/")["results"][0]["state"] == "delivered"
        # The ports are others today: the demo's endpoint has moved with them.
        assert "✔ one event delivered and verified" in second.screen


def test_a_killed_make_up_takes_everything_with_it_and_the_next_one_starts(home: Path) -> None:
    with running_stack(home) as first:
        first.wait_for_banner()
        first.process.kill()
        wait_until(lambda: processes_of(first.data_dir) == [])

    with running_stack(home, PORT=first.port, RECEIVER_PORT=first.receiver_port) as second:
        second.wait_for_banner()
        assert "✔ one event delivered and verified" in second.screen


@pytest.mark.parametrize("option", ["PORT", "RECEIVER_PORT"])
def test_a_taken_port_is_named_with_the_option_that_moves_it(home: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_stack(home, **{option: str(port)}) as stack:
            assert stack.process.wait(30) == 1
            assert f"Port {port} is taken by another program. Choose another: {option}=" in stack.screen
            assert not (stack.data_dir / "postgres").exists()


def test_servers_of_ones_own_are_used_instead_of_the_embedded_ones(home: Path) -> None:
    with (
        claim(home / "theirs") as theirs,
        embedded_postgres(theirs) as database,
        embedded_valkey(theirs) as broker,
        running_stack(home, DATABASE_URL=database.url, REDIS_URL=broker.url) as stack,
    ):
        stack.wait_for_banner()
        assert "✔ one event delivered and verified" in stack.screen
        assert not (stack.data_dir / "postgres").exists()
        assert not (stack.data_dir / "valkey").exists()
        assert stack.press_ctrl_c() == 0


def test_a_database_that_is_not_there_is_a_clear_message(home: Path) -> None:
    url = "postgres://nobody:hidden@127.0.0.1:1/none"
    with running_stack(home, DATABASE_URL=url, SERVER_WAIT_SECONDS="1") as stack:
        assert stack.process.wait(60) == 1
        assert "The server in DATABASE_URL cannot be used" in stack.screen
        assert "hidden" not in stack.screen
