"""A client that a generator made from /api/schema/ walks the README's way against running processes."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import stripe

from subscriptions import keys
from subscriptions.models import Role
from tests.local import wait_until
from tests.receiver import Receiver, Reply
from tests.stack import StartStack

PACKAGE = "generated_webhooks_client"
SCHEMA = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}


class Generated:
    """`generated("emit_event", body={…})` calls the client's function of this name with the client's own types."""

    def __init__(self, url: str, key: str) -> None:
        self.client = importlib.import_module(PACKAGE).AuthenticatedClient(base_url=url, token=key)
        self._models = importlib.import_module(f"{PACKAGE}.models")
        folder = Path(str(importlib.import_module(PACKAGE).__file__)).parent / "api"
        self._modules = {file.stem: f"{PACKAGE}.api.{file.parent.name}.{file.stem}" for file in folder.glob("*/*.py")}

    def __call__(
        self, operation: str, *path: str, status: int, body: tuple[str, Any] | None = None, **given: Any
    ) -> Any:
        if body is not None:
            model, value = body
            given["body"] = getattr(self._models, model).from_dict(value)
        answer = importlib.import_module(self._modules[operation]).sync_detailed(*path, client=self.client, **given)
        assert answer.status_code == status, answer.content
        return answer


@pytest.fixture
def generated_package(tmp_path: Path) -> Iterator[Path]:
    """Where the generator may write, on the path of imports."""
    sys.path.insert(0, str(tmp_path))
    yield tmp_path / PACKAGE
    sys.path.remove(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def generate(schema: bytes, to: Path) -> None:
    document = to.parent / "openapi.json"
    document.write_bytes(schema)
    config = to.parent / "config.yaml"
    config.write_text("post_hooks: []\n")
    done = subprocess.run(
        [
            sys.executable, "-W", "ignore", "-m", "openapi_python_client", "generate", "--path", str(document),
            "--output-path", str(to), "--config", str(config), "--meta", "none", "--fail-on-warning",
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_a_generated_client_walks_the_readmes_way(
    start_stack: StartStack, receiver: Receiver, generated_package: Path
) -> None:
    pytest.importorskip("openapi_python_client")
    stack = start_stack("web", "deliveries1", "background", "beat", DELIVERY_SWEEP_SECONDS="0.2")
    generate(httpx.get(f"{stack.url}/api/schema/").content, generated_package)
    call = Generated(stack.url, keys.issue(role=Role.OPERATOR)[1])

    index = call("get_index", status=200).parsed
    assert {line.operation for line in index.routes} == set(call._modules) - {"__init__"}
    call("create_consumer", status=201, body=("ConsumerRequest", {"uid": "acme", "name": "Acme"}))
    version = {"api_version": "1", "schema": SCHEMA, "example": {"amount": 1}}
    paid = {"name": "invoice.paid", "description": "Paid.", "versions": [version]}
    call("create_event_type", status=201, body=("NewEventTypeRequest", paid))
    wanted = {"url": receiver.url, "event_types": ["invoice.*"]}
    endpoint = call("create_endpoint", "acme", status=201, body=("NewEndpointRequest", wanted)).parsed

    # Emitted twice with one key, it is one event.
    event = {"consumer": "acme", "type": "invoice.paid", "data": {"amount": 4999}, "ordering_key": "4711"}
    emits = [
        call("emit_event", status=202, body=("EventRequest", event), idempotency_key="invoice-4711-paid")
        for _ in range(2)
    ]
    assert emits[0].parsed == emits[1].parsed
    assert emits[1].headers["Idempotent-Replayed"] == "true"
    assert (emits[0].parsed.sequence, emits[0].parsed.delivery_count) == (1, 1)
    wrong = call("emit_event", status=400, body=("EventRequest", {**event, "data": {"amount": "much"}})).parsed
    assert (wrong.code, wrong.errors[0].pointer) == ("schema_mismatch", "/data/amount")

    # It arrives, and verifies with a library that we did not write.
    [request] = receiver.wait_for(1)
    signature = request.headers["webhook-signature"]
    assert stripe.WebhookSignature.verify_header(request.body.decode(), signature, endpoint.secret, tolerance=300)
    assert request.headers["webhook-id"] == emits[0].parsed.id
    [delivery] = call("list_event_deliveries", emits[0].parsed.id, status=200).parsed.results
    wait_until(lambda: call("get_delivery", delivery.id, status=200).parsed.state == "delivered", seconds=30)
    [attempt] = call("get_delivery", delivery.id, status=200).parsed.attempts
    assert (attempt.number, attempt.status_code, attempt.error_kind) == (1, 200, None)

    # Asked for again, it comes again with the same id.
    receiver.answer = lambda _request: Reply(204, b"")
    assert call("replay_delivery", delivery.id, status=202).parsed.state == "pending"
    again = receiver.wait_for(2)[1]
    assert (again.body, again.headers["webhook-id"]) == (request.body, emits[0].parsed.id)
    feed = call("read_feed", "acme", status=200).parsed
    assert [each.id for each in feed.results] == [emits[0].parsed.id]
    stats = call("get_endpoint_stats", endpoint.id, status=200).parsed
    assert (stats.endpoint, len(stats.buckets)) == (endpoint.id, 96)
    call("delete_endpoint", endpoint.id, status=204)
    assert call("get_endpoint", endpoint.id, status=404).parsed.code == "not_found"
    call.client.get_httpx_client().close()
