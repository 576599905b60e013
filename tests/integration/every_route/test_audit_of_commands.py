"""S16: every management command that changes something leaves one audit entry for each change.

Generated from Django's list of commands: a new one fails here until it is described, or exempt with a reason.
"""

import base64
import getpass
import socket
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command, get_commands
from django.db import connection

from deliveries.console.accounts import second_factor
from deliveries.health import lifecycle
from deliveries.management.commands import endpoints as endpoints_command
from deliveries.replaying.models import Replay
from subscriptions import endpoints, keys
from subscriptions.models import ApiKey, Consumer, Endpoint, Role
from tests.audit import Entry, entries
from tests.console import dead_letters
from tests.integration.deliveries.browse.test_feed import RESTORED
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

# Not Django's own: who may run those (createsuperuser, changepassword, flush) may write to any table, the log included.
OURS = {"deliveries", "subscriptions", "webhooks_platform"}
EXEMPT = {"deadletters": "reads", "list_keys": "reads", "endpoints list": "reads"}
DEMO = ["consumer.created", "endpoint.created", "key.issued", "user.created"]


def run(*arguments: str) -> None:
    call_command(*arguments, stdout=StringIO())


def who(command: str) -> str:
    return f"command {command} by {getpass.getuser()}@{socket.gethostname()}"


def issue_key(acme: Consumer, **_: Any) -> list[Entry]:
    run("issue_key", "--role", "consumer", "--consumer", "acme", "--why", "asked")
    return [Entry(who("issue_key"), "key.issued", ApiKey.objects.get().public_id, 1, "asked")]


def rotate_key(acme: Consumer, **_: Any) -> list[Entry]:
    key, _secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    run("rotate_key", key.public_id, "--why", "yearly")
    return [Entry(who("rotate_key"), "key.rotated", key.public_id, 1, "yearly")]


def revoke_key(acme: Consumer, **_: Any) -> list[Entry]:
    key, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    keys.issue(role=Role.CONSUMER, consumer=acme, issued_by=keys.verify(secret))
    run("revoke_key", key.public_id, "--why", "leaked")
    return [Entry(who("revoke_key"), "key.revoked", key.public_id, 2, "leaked")]


def reencrypt(acme: Consumer, settings: Any, **_: Any) -> list[Entry]:
    old, new = (f"{name}:" + base64.b64encode(name.encode() * 8).decode() for name in ("old1", "new1"))
    settings.ENCRYPTION_KEYS = [old]
    for _number in range(2):
        endpoints.create(consumer=acme, url="http://127.0.0.1:9/")
    settings.ENCRYPTION_KEYS = [new, old]
    run("reencrypt", "--why", "yearly")
    run("reencrypt", "--why", "nothing is left to do")
    return [Entry(who("reencrypt"), "secrets.reencrypted", "", 2, "yearly")]


def start_replay(acme: Consumer, **_: Any) -> list[Entry]:
    dead_letters(acme, 3)
    run("replay", "--consumer", "acme", "--dry-run")
    run("replay", "--consumer", "acme", "--rate", "1", "--why", "fixed", "--yes", "--no-wait")
    return [Entry(who("replay"), "replay.started", Replay.objects.get().public_id, 3, "fixed")]


def cancel_replay(acme: Consumer, **_: Any) -> list[Entry]:
    started = start_replay(acme)
    job = Replay.objects.get().public_id
    run("replay", job, "--cancel", "--why", "wrong ones")
    return [*started, Entry(who("replay"), "replay.cancelled", job, 3, "wrong ones")]


def after_restore(acme: Consumer, **_: Any) -> list[Entry]:
    accept(acme)
    with connection.cursor() as cursor:
        cursor.execute(RESTORED)
    run("after_restore")
    run("after_restore")
    return [Entry(who("after_restore"), "feed.moved_on", "", 1, "")]


def demo(acme: Consumer, tmp_path: Path, **_: Any) -> list[Entry]:
    Consumer.objects.all().delete()
    for _number in range(2):
        run("demo", "--receiver-url", "http://127.0.0.1:9/", "--state", str(tmp_path / "demo.json"))
    targets = [Consumer.objects.get().public_id, Endpoint.objects.get().public_id, ApiKey.objects.get().public_id]
    why = "the demo of make up"
    return [Entry(who("demo"), *action, 1, why) for action in zip(DEMO, [*targets, "admin"], strict=True)]


def import_setup(tmp_path: Path, **_: Any) -> list[Entry]:
    file = tmp_path / "setup.jsonl"
    file.write_text(
        '{"kind": "event_type", "name": "invoice.paid"}\n{"kind": "consumer", "uid": "globex"}\n'
        '{"kind": "endpoint", "consumer": "globex", "uid": "main", "url": "https://globex.example/hook"}\n'
    )
    run("import_setup", str(file), "--dry-run")
    run("import_setup", str(file), "--why", "we move in")
    run("import_setup", str(file), "--why", "nothing is left to do")
    globex = Consumer.objects.get(uid="globex")
    made = [
        ("event_type.created", "invoice.paid"),
        ("consumer.created", globex.public_id),
        ("endpoint.created", Endpoint.objects.get(consumer=globex).public_id),
    ]
    return [Entry(who("import_setup"), action, target, 1, "we move in") for action, target in made]


def export_setup(acme: Consumer, tmp_path: Path, **_: Any) -> list[Entry]:
    for _number in range(2):
        new_endpoint(acme)
    run("export_setup", str(tmp_path / "without.jsonl"))
    run("export_setup", str(tmp_path / "with.jsonl"), "--with-secrets", "--why", "we move out")
    return [Entry(who("export_setup"), "secrets.exported", "", 2, "we move out")]


def reset_second_factor(**_: Any) -> list[Entry]:
    user = User.objects.create_user("olga")
    second_factor.begin(user)
    run("reset_second_factor", "olga", "--why", "lost her phone")
    return [Entry(who("reset_second_factor"), "user.second_factor_removed", "olga", 1, "lost her phone")]


def act_on_endpoint(action: str) -> Callable[..., list[Entry]]:
    done = {"pause": "paused", "resume": "resumed", "disable": "disabled", "probe": "probed"}

    def act(acme: Consumer, **_: Any) -> list[Entry]:
        endpoint = new_endpoint(acme)
        if action == "resume":
            lifecycle.pause(endpoint, reason="for the test")
        run("endpoints", action, endpoint.public_id, "--why", "asked")
        return [Entry(who("endpoints"), f"endpoint.{done[action]}", endpoint.public_id, 1, "asked")]

    return act


# Each runs its command for real and says which entries there must be.
COMMANDS: dict[str, Callable[..., list[Entry]]] = {
    "issue_key": issue_key,
    "rotate_key": rotate_key,
    "revoke_key": revoke_key,
    "reencrypt": reencrypt,
    "replay start": start_replay,
    "replay cancel": cancel_replay,
    "after_restore": after_restore,
    "demo": demo,
    "reset_second_factor": reset_second_factor,
    "import_setup": import_setup,
    "export_setup": export_setup,
    **{f"endpoints {action}": act_on_endpoint(action) for action in endpoints_command.ACTIONS},
}


def test_s16_every_command_of_ours_is_described_here() -> None:
    ours = {name for name, app in get_commands().items() if app in OURS}
    assert {name.split()[0] for name in (*COMMANDS, *EXEMPT)} == ours


@pytest.mark.parametrize("name", COMMANDS)
def test_s16_a_change_by_command_leaves_exactly_one_entry(
    name: str, acme: Consumer, settings: Any, tmp_path: Path
) -> None:
    expected = COMMANDS[name](acme=acme, settings=settings, tmp_path=tmp_path)

    assert entries() == expected


@pytest.mark.parametrize("name", EXEMPT)
def test_s16_a_command_that_reads_writes_none(name: str, acme: Consumer) -> None:
    dead_letters(acme, 1)
    run(*name.split())
    assert entries() == []
