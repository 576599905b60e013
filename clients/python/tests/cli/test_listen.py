"""`webhooks listen`: forwards each event once, signed, and goes on where it was."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from webhooks_client import Retries
from webhooks_client.cli.listen import Listener, State
from webhooks_client.cli.screen import Screen
from webhooks_client.receive import verify

from tests.platform import Platform

SECRET = "whsec_c2VjcmV0"


def event(number: int) -> dict[str, Any]:
    return {
        "id": f"evt_{number}",
        "consumer": "acme",
        "type": "order.placed",
        "api_version": None,
        "created_at": "2026-01-02T00:00:00Z",
        "occurred_at": None,
        "ordering_key": "k",
        "sequence": number,
        "data": {"name": "Zoë"},
        "deliveries": [],
    }


def page(*numbers: int, following: str | None = None) -> httpx.Response:
    following = f"http://x/?cursor={following}" if following else None
    return httpx.Response(200, json={"results": [event(number) for number in numbers], "next": following})


class Local:
    """What runs at the local port."""

    def __init__(self, *answers: int | BaseException) -> None:
        self.got: list[httpx.Request] = []
        self._answers = list(answers)

    def handle(self, request: httpx.Request) -> httpx.Response:
        answer = self._answers.pop(0) if self._answers else 200
        if isinstance(answer, BaseException):
            raise answer
        self.got.append(request)
        return httpx.Response(answer, text="fine" if answer == 200 else "broken")

    def ids(self) -> list[str]:
        return [str(json.loads(request.content)["id"]) for request in self.got]


Make = Callable[[Platform, Local], Listener]


@pytest.fixture
def state_path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "state.json"


@pytest.fixture
def out() -> StringIO:
    return StringIO()


@pytest.fixture
def make(state_path: Path, out: StringIO) -> Make:
    def made(platform: Platform, local: Local) -> Listener:
        state = State.load(state_path)
        state.secret = state.secret or SECRET
        return Listener(
            platform.client(retries=Retries(tries=1)),
            Screen(out=out, err=StringIO()),
            state,
            consumer="acme",
            forward_to="http://localhost:1/hook",
            local=httpx.Client(transport=httpx.MockTransport(local.handle)),
            sleep=platform.slept.append,
        )

    return made


def test_an_event_arrives_signed_as_the_platform_would_send_it(make: Make, out: StringIO) -> None:
    local = Local()
    assert make(Platform([page(1, following="c1")]), local).turn() == 1
    [request] = local.got
    got = verify(request.content, request.headers, SECRET)
    assert (got.id, got.type, got.data, got.sequence) == ("evt_1", "order.placed", {"name": "Zoë"}, 1)
    assert got.timestamp == "2026-01-02T00:00:00Z"
    assert "order.placed  evt_1  -> 200" in out.getvalue()


def test_the_next_turn_goes_on_behind_the_page_and_waits_there(make: Make) -> None:
    platform = Platform([page(1, following="c1"), page()])
    listener = make(platform, Local())
    assert [listener.turn(), listener.turn()] == [1, 0]
    assert dict(platform.requests[1].url.params) == {"cursor": "c1", "limit": "50", "wait": "25"}


def test_a_restart_in_the_middle_of_a_page_repeats_and_loses_nothing(make: Make) -> None:
    first = Local(200, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        make(Platform([page(1, 2, 3, following="c1")]), first).turn()
    second = Local()
    make(Platform([page(1, 2, 3, following="c1")]), second).turn()
    assert (first.ids(), second.ids()) == (["evt_1"], ["evt_2", "evt_3"])


def test_what_was_under_way_when_it_was_killed_comes_again_with_its_id_as_attempt_2(
    make: Make, state_path: Path
) -> None:
    first = Local(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        make(Platform([page(1, 2, following="c1")]), first).turn()
    assert json.loads(state_path.read_text())["forwarding"] == "evt_1"
    second = Local()
    make(Platform([page(1, 2, following="c1")]), second).turn()
    sent = [(request.headers["webhook-id"], request.headers["webhook-attempt"]) for request in second.got]
    assert sent == [("evt_1", "2"), ("evt_2", "1")]


def test_a_state_of_an_earlier_version_is_read(make: Make, state_path: Path) -> None:
    state_path.parent.mkdir()
    state_path.write_text(json.dumps({"secret": SECRET, "cursor": "c1", "forwarded": ["evt_1"]}))
    local = Local()
    make(Platform([page(1, 2, following="c2")]), local).turn()
    assert local.ids() == ["evt_2"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_state_that_is_damaged_is_said_to_be(make: Make, state_path: Path, text: str) -> None:
    state_path.parent.mkdir()
    state_path.write_text(text)
    with pytest.raises(ValueError, match="is damaged"):
        make(Platform([page()]), Local())


def test_while_the_platform_is_away_it_tries_again_and_shows_it(make: Make) -> None:
    platform = Platform([httpx.ConnectError("gone"), httpx.ConnectError("gone"), page(1, following="c1")])
    local = Local()
    listener = make(platform, local)
    assert [listener.turn() for _ in range(3)] == [0, 0, 1]
    assert platform.slept == [0.5, 1.0]
    assert local.ids() == ["evt_1"]


def test_while_nobody_listens_locally_the_event_is_kept(make: Make) -> None:
    platform = Platform([page(1, following="c1")])
    local = Local(httpx.ConnectError("refused"), httpx.ConnectError("refused"), 200)
    make(platform, local).turn()
    assert (platform.slept, local.ids()) == ([0.5, 1.0], ["evt_1"])


def test_a_local_error_is_shown_and_the_next_event_comes(make: Make, out: StringIO) -> None:
    local = Local(500, 200)
    make(Platform([page(1, 2, following="c1")]), local).turn()
    assert local.ids() == ["evt_1", "evt_2"]
    assert "-> 500" in out.getvalue()
    assert "broken" in out.getvalue()


def test_an_empty_page_that_came_at_once_is_not_asked_for_at_once(make: Make) -> None:
    platform = Platform([page()])
    make(platform, Local()).turn()
    assert 0.5 < platform.slept[0] <= 1.0


def test_the_first_time_it_begins_at_the_end(make: Make) -> None:
    platform = Platform([page(1, 2, following="c1"), page(), page(3, following="c2")])
    local = Local()
    listener = make(platform, local)
    listener.skip_to_the_end()
    listener.turn()
    assert local.ids() == ["evt_3"]


def test_the_state_with_its_secret_is_for_nobody_else(make: Make, state_path: Path) -> None:
    make(Platform([page(1, following="c1")]), Local()).turn()
    assert state_path.stat().st_mode & 0o777 == 0o600
    assert json.loads(state_path.read_text()) == {
        "secret": SECRET,
        "cursor": "c1",
        "forwarded": [],
        "forwarding": None,
        "attempt": 0,
    }
