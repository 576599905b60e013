"""S16: an interface changes nothing without saying who does it: it calls actions, and each asks for an actor."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deliveries.actions
import subscriptions.actions
from subscriptions.audit import Actor
from subscriptions.models import ActorKind

ROOT = Path(__file__).parents[2]
INTERFACES = [
    *ROOT.glob("deliveries/api/*.py"), *ROOT.glob("deliveries/console/*.py"), *ROOT.glob("deliveries/portal/*.py"),
    *ROOT.glob("subscriptions/api/*.py"), *ROOT.glob("*/management/commands/*.py"),
]  # fmt: skip
# The modules that do the work of actions, and what of them only reads. Whatever else they hold is for actions alone.
READS: dict[str, set[str]] = {
    "subscriptions.consumers": {"find", "is_uid", "UidTaken", "UID_RULE", "UID_PATTERN"},
    "subscriptions.endpoints": {
        "find",
        "TooManyEndpoints",
        "TooManyNewEndpoints",
        "RotationInProgress",
        "overlap_until",
    },
    "subscriptions.event_types": {
        "find",
        "published",
        "is_name",
        "is_pattern",
        "NAME",
        "PATTERN",
        "NameTaken",
        "SchemaInvalid",
        "newest_example",
        "unknown_pattern",
        "NOTIFICATION_TYPES",
    },
    "subscriptions.keys": {"verify", "remembered", "Caller"},
    "subscriptions.mail_recipients": {"find", "of", "by_token", "TooManyRecipients"},
    "subscriptions.access.portal_visits": {"visitor", "visit_of_link"},
    "subscriptions.secrets.reencrypt": set(),
    "deliveries.health.lifecycle": {"backlog"},
    "deliveries.replay": {"TooManyReplays"},
    "deliveries.endpoint_tests.test_event": {
        "TooManyTests",
        "Held",
        "Locked",
        "Trial",
        "signer",
        "TYPE",
        "DATA",
        "data_of",
    },
    "deliveries.endpoint_tests.check_up": {"last_report", "TooSoon", "PAUSE_SECONDS"},
}
# Their actor is the session that the token opens or ends.
OWN_ACTOR = {
    "subscriptions.actions.portal.open_link",
    "subscriptions.actions.portal.leave",
    # The reader of a mail.
    "subscriptions.actions.notifications.confirm",
    "subscriptions.actions.notifications.stop",
}
# Below the actions: which fields a change changes.
NO_ACTIONS = {"subscriptions.actions.changes"}


def actions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package in (subscriptions.actions, deliveries.actions):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            for name, function in inspect.getmembers(module, inspect.isfunction):
                is_own = function.__module__ == module.__name__ and not name.startswith("_")
                if is_own and found.name not in NO_ACTIONS:
                    yield f"{found.name}.{name}", function


def test_s16_every_action_must_be_told_who_and_why() -> None:
    missing = []
    for name, function in actions():
        given = inspect.signature(inspect.unwrap(function)).parameters
        wanted = {
            parameter: given.get(parameter) and (given[parameter].kind.name, given[parameter].default)
            for parameter in ("actor", "why")
        }
        if wanted != dict.fromkeys(wanted, ("KEYWORD_ONLY", inspect.Parameter.empty)):
            missing.append(name)
    assert set(missing) == OWN_ACTOR


@pytest.mark.parametrize("path", INTERFACES, ids=lambda path: str(path.relative_to(ROOT)))
def test_s16_an_interface_calls_actions_and_never_what_does_their_work(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert list(work_done_by_hand(tree)) == []


def work_done_by_hand(tree: ast.Module) -> Iterator[str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in READS:
                    names[alias.asname or alias.name] = full
                elif node.module in READS and alias.name not in READS[node.module]:
                    yield full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            module = names[node.value.id]
            if node.attr not in READS[module]:
                yield f"{module}.{node.attr}"


def test_s16_the_test_above_sees_work_done_by_hand() -> None:
    source = "from subscriptions import keys as k\nfrom deliveries.replay import start\nk.issue()\nk.verify('')"
    assert sorted(work_done_by_hand(ast.parse(source))) == ["deliveries.replay.start", "subscriptions.keys.issue"]


@pytest.mark.parametrize(
    ("actor", "shown", "brief"),
    [
        (Actor.of_user("olga"), "user olga", "olga"),
        (Actor(ActorKind.KEY, "key_1", "producer"), "key key_1 (producer)", "a producer"),
        (Actor(ActorKind.PORTAL, "vis_1", "acme"), "portal vis_1 of acme", "the portal"),
        (Actor(ActorKind.COMMAND, "replay", "root@a"), "command replay by root@a", "an operator"),
    ],
)
def test_an_actor_is_shown_so_that_people_can_tell(actor: Actor, shown: str, brief: str) -> None:
    assert (str(actor), actor.brief) == (shown, brief)
