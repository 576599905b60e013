"""The first steps of /api/docs/, run by a shell as they stand there: from a key to a delivered event."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from subscriptions import keys
from subscriptions.models import Role
from tests.local import wait_until
from tests.receiver import Receiver
from tests.stack import Stack, StartStack
from webhooks_platform.openapi.start import STEPS

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


def run(stack: Stack, key: str, shell: str) -> Any:
    """In a shell of its own, whose variables are those of the first step."""
    env = {"URL": stack.url, "KEY": key, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", f"{shell} --silent --fail-with-body"], env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


def test_the_steps_of_the_page_lead_to_a_delivered_event(receiver: Receiver, start_stack: StartStack) -> None:
    stack = start_stack("web", "deliveries1")
    variables, *steps = [step.shell for step in STEPS]
    assert [line.partition("=")[0] for line in variables.splitlines()] == ["export URL", "export KEY"]
    key = keys.issue(role=Role.PRODUCER)[1]
    consumer, endpoint, event, deliveries = [
        step.replace("https://hooks.acme.example/webhooks", receiver.url) for step in steps
    ]

    assert run(stack, key, consumer)["uid"] == "acme"
    assert str(run(stack, key, endpoint)["secret"]).startswith("whsec_")
    assert run(stack, key, event)["delivery_count"] == 1
    assert json.loads(receiver.wait_for(1)[0].body)["data"] == {"invoice": "4711"}

    def is_delivered() -> bool:
        [shown] = run(stack, key, deliveries)["results"]
        return bool(shown["state"] == "delivered")

    wait_until(is_delivered, seconds=30)
