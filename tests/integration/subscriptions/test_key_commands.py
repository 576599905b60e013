"""`manage.py issue_key`, `rotate_key`, `revoke_key`, `list_keys`."""

import json
from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from subscriptions import keys
from subscriptions.models import ApiKey, Consumer, Role

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_issue_key_prints_a_key_and_nothing_else(acme: Consumer) -> None:
    printed = [run("issue_key", "--role", "producer"), run("issue_key", "--role", "consumer", "--consumer", "acme")]
    assert [text.count("\n") for text in printed] == [1, 1]
    callers = [keys.verify(text.strip()) for text in printed]
    assert [caller and caller.role for caller in callers] == ["producer", "consumer"]


def test_issue_key_takes_scopes_an_owner_a_name_and_an_end() -> None:
    secret = run(
        "issue_key", "--role", "producer", "--scope", "events:write", "--scope", "events:read", "--owner", "billing",
        "--name", "night job", "--expires-in", "90d",
    ).strip()  # fmt: skip

    caller, key = keys.verify(secret), ApiKey.objects.get()
    assert caller is not None
    assert caller.scopes == {"events:write", "events:read"}
    assert (caller.owner, key.name) == ("billing", "night job")
    assert key.expires_at is not None
    assert timedelta(days=89) < key.expires_at - timezone.now() <= timedelta(days=90)


def test_issue_key_adds_to_what_a_role_may_by_default() -> None:
    caller = keys.verify(
        run("issue_key", "--role", "producer", "--scope", "default", "--scope", "attempts:read").strip()
    )
    assert caller is not None
    assert {"events:write", "attempts:read"} <= caller.scopes
    assert "secrets:rotate" not in caller.scopes


def test_issue_key_takes_the_moment_of_its_end() -> None:
    run("issue_key", "--role", "operator", "--expires-at", "2999-01-31T12:00:00Z")
    assert ApiKey.objects.get().expires_at == datetime.fromisoformat("2999-01-31T12:00:00Z")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scope", "events:wirte"],
        ["--scope", "audit:read"],
        ["--expires-in", "soon"],
        ["--expires-in", "-5d"],
        ["--expires-in", "99999999999d"],
        ["--expires-at", "2001-01-01T00:00:00Z"],
        ["--expires-at", "2999-01-01"],
        ["--owner", "con_01h455vb4pex5vsknk084sn02q"],
        ["--consumer", "acme"],
    ],
    ids=" ".join,
)
def test_issue_key_refuses_what_makes_no_sense(acme: Consumer, arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("issue_key", "--role=producer", *[f"{arguments[0]}={arguments[1]}"])
    assert ApiKey.objects.count() == 0


def test_rotate_key_prints_the_new_key_and_the_old_one_works_on() -> None:
    old = run("issue_key", "--role", "producer").strip()

    new = run("rotate_key", ApiKey.objects.get().public_id).strip()

    callers = [keys.verify(old), keys.verify(new)]
    assert len({caller.owner for caller in callers if caller}) == 1
    assert None not in callers


def test_revoke_key_revokes_it_with_what_it_made(acme: Consumer) -> None:
    parent = keys.verify(run("issue_key", "--role", "consumer", "--consumer", "acme").strip())
    _, child = keys.issue(role=Role.CONSUMER, consumer=acme, issued_by=parent)
    root = ApiKey.objects.get(issued_by=None)

    assert "2 keys" in run("revoke_key", root.public_id)

    assert keys.verify(child) is None
    for name in (root.public_id, "nonsense"):
        with pytest.raises(CommandError, match="no key"):
            run("revoke_key", name)


def test_list_keys_shows_those_that_work_and_no_secret(acme: Consumer) -> None:
    secret = run("issue_key", "--role", "producer", "--owner", "billing").strip()
    run("issue_key", "--role", "consumer", "--consumer", "acme")
    revoked = ApiKey.objects.latest("id")
    keys.revoke(key_id=revoked.id)

    [shown] = [json.loads(line) for line in run("list_keys", "--json").splitlines()]

    assert (shown["role"], shown["owner"], shown["issued_by"]) == ("producer", "billing", None)
    assert "billing" in run("list_keys")
    assert secret not in run("list_keys", "--json") + run("list_keys")
