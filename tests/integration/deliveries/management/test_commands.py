"""`manage.py deadletters`, `replay`, `endpoints`: for people as tables, for scripts as JSON."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from deliveries import replay
from deliveries.replaying.models import Replay
from subscriptions.models import AuditEntry, Consumer
from tests.console import dead_letters
from tests.walk import new_endpoint, states

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_dead_letters_as_a_table_and_as_json(acme: Consumer) -> None:
    endpoint, found = dead_letters(acme, 3)
    assert endpoint.public_id in run("deadletters")
    [group] = run_json("deadletters", "--consumer", "acme")
    assert (group["endpoint"], group["reason"], group["count"]) == (endpoint.public_id, "attempts_exhausted", 3)
    listed = run_json("deadletters", "--list", "--limit", "2")
    assert [row["delivery"] for row in listed] == [delivery.public_id for delivery in found[:2]]
    assert run("deadletters", "--reason", "expired").strip() == "No dead letters."


def test_a_replay_is_previewed_started_and_watched(acme: Consumer) -> None:
    endpoint, _ = dead_letters(acme, 3)
    assert run_json("replay", "--endpoint", endpoint.public_id, "--dry-run")["matched"] == 3
    assert Replay.objects.count() == 0
    job = run_json("replay", "--endpoint", endpoint.public_id, "--why", "fixed", "--no-wait")
    replay.advance_all()
    assert states(endpoint) == ["pending"] * 3
    assert "100%" in run("replay", job["id"])
    [entry] = AuditEntry.objects.all()
    assert entry.actor.startswith("command replay by ")
    assert (entry.action, entry.count, entry.why) == ("replay.started", 3, "fixed")


def test_a_replay_is_cancelled_by_its_id(acme: Consumer) -> None:
    dead_letters(acme, 3)
    job = run_json("replay", "--all", "--why", "slowly", "--rate", "1", "--no-wait")
    assert run_json("replay", job["id"], "--cancel", "--why", "wrong")["status"] == "cancelled"
    with pytest.raises(CommandError, match="already"):
        run("replay", job["id"], "--cancel", "--why", "wrong")


@pytest.mark.parametrize(
    "arguments",
    [["--all", "--yes"], ["--all", "--why", "x", "--rate", "0"], ["--why", "x", "--yes"], ["--consumer", "nobody"]],
)
def test_a_replay_that_makes_no_sense_is_refused(acme: Consumer, arguments: list[str]) -> None:
    dead_letters(acme, 1)
    with pytest.raises(CommandError):
        run("replay", *arguments)
    assert Replay.objects.count() == 0


def test_endpoints_are_listed_and_acted_on(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    assert [row["endpoint"] for row in run_json("endpoints", "--consumer", "acme")] == [endpoint.public_id]
    assert run("endpoints", "--status", "failing").strip() == "No endpoints."
    [row] = run_json("endpoints", "pause", endpoint.public_id, "--why", "asked to")
    assert row["status"] == "paused"
    with pytest.raises(CommandError, match="paused by now"):
        run("endpoints", "pause", endpoint.public_id, "--why", "again")
    with pytest.raises(CommandError, match="--why"):
        run("endpoints", "resume", endpoint.public_id)
