"""The document's examples are real: what a running system was sent and answered, with ids and times made stable.

`make api-document` writes them anew (webhooks_platform/openapi/examples.json); otherwise they are compared.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from subscriptions import keys
from subscriptions.models import Role
from tests.conftest import Api, PumpRunner
from tests.integration.webhooks_platform.openapi.stable import Stable
from tests.receiver import Received, Receiver, Reply
from webhooks_platform.api_routes import ROUTES
from webhooks_platform.openapi import document
from webhooks_platform.openapi.index import INDEX

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES = Path(document.__file__).parent / "examples.json"
SCHEMA = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}
EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {"invoice": "4711", "amount": 4999}}


class Recorder:
    """Calls with an operator's key and keeps what was said, by operation."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.said: dict[str, Any] = {"problems": {}}

    def call(self, operation: str, path: str, body: Any = None, *, method: str = "", **query: Any) -> Any:
        method = method or ("GET" if body is None else "POST")
        if method in ("GET", "DELETE"):
            suffix = "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""
            answer = getattr(self.api, method.lower())(path + suffix)
        else:
            answer = getattr(self.api, method.lower())(path, body)
        assert answer.status_code < 300, (operation, answer.content)
        entry = self.said.setdefault(operation, {})
        # The first request is the plain one.
        if body:
            entry.setdefault("request", body)
        if answer.content:
            entry.setdefault("answers", {})[str(answer.status_code)] = answer.json()
        return answer.json() if answer.content else None

    def refused(self, answer: Any) -> None:
        problem = answer.json()
        assert answer["Content-Type"] == "application/problem+json"
        self.said["problems"][problem["code"]] = problem


def test_the_examples_are_what_a_running_system_answers(operator: Api, receiver: Receiver, pump: PumpRunner) -> None:
    recorder = Recorder(operator)
    walk(recorder, receiver, pump)
    refusals(recorder)
    told = Stable(receiver_url=receiver.url).told(recorder.said)
    text = json.dumps(told, ensure_ascii=False, indent=1) + "\n"
    if os.environ.get("WRITE_API_DOCUMENT"):
        EXAMPLES.write_text(text)
    assert told == json.loads(EXAMPLES.read_text()), "What the API answers has changed: make api-document"


def test_every_answer_of_every_operation_has_an_example() -> None:
    said = json.loads(EXAMPLES.read_text())
    missing = [
        (operation.id, status)
        for route in (INDEX, *ROUTES)
        for operation in route.view.operations.values()
        for status, declared in {operation.status: operation.answer, **operation.also}.items()
        if declared is not None and str(status) not in said.get(operation.id, {}).get("answers", {})
    ]
    assert missing == []


def walk(recorder: Recorder, receiver: Receiver, pump: PumpRunner) -> None:
    """From the first consumer to its end, as somebody learns the API."""
    call = recorder.call
    index = call("get_index", "")
    index["routes"] = index["routes"][:4]

    call("create_consumer", "consumers/", {"uid": "acme", "name": "Acme Inc", "contact_email": "ops@acme.example"})
    call("list_consumers", "consumers/")
    call("get_consumer", "consumers/acme/")
    call("update_consumer", "consumers/acme/", {"metadata": {"plan": "gold"}}, method="PATCH")

    version = {"api_version": "1", "schema": SCHEMA, "example": {"invoice": "4711", "amount": 4999}}
    paid = {"name": "invoice.paid", "description": "An invoice was paid in full.", "versions": [version]}
    call("create_event_type", "event-types/", paid)
    call("list_event_types", "event-types/")
    call("get_event_type", "event-types/invoice.paid/")
    call("update_event_type", "event-types/invoice.paid/", {"description": "An invoice was paid."}, method="PATCH")

    legacy = {"name": "legacy", "signed": "{timestamp}.{body}", "signature_header": "x-legacy", "prefix": "sha256="}
    call("create_signature_profile", "signature-profiles/", legacy)
    listed = call("list_signature_profiles", "signature-profiles/")
    listed["results"] = listed["results"][:2]
    call("get_signature_profile", "signature-profiles/legacy/")
    described = {"description": "As our old sender signed."}
    call("update_signature_profile", "signature-profiles/legacy/", described, method="PATCH")
    call("delete_signature_profile", "signature-profiles/legacy/", method="DELETE")

    wanted = {"url": receiver.url, "event_types": ["invoice.*"], "retry_schedule": [0]}
    endpoint = call("create_endpoint", "consumers/acme/endpoints/", wanted)["id"]
    call("list_endpoints", "consumers/acme/endpoints/")
    call("get_endpoint", f"endpoints/{endpoint}/")
    call("update_endpoint", f"endpoints/{endpoint}/", {"description": "Billing", "max_in_flight": 20}, method="PATCH")

    event = call("emit_event", "events/", {**EVENT, "ordering_key": "invoice-4711"})["id"]
    pump.run()
    receiver.answer = lambda _received: Reply(503, b"Down for maintenance")
    batch = [{**EVENT, "id": "inv-4712-paid"}, {**EVENT, "consumer": "nobody"}]
    call("emit_events", "events/batch/", {"events": batch})
    pump.run()
    receiver.answer = lambda _received: Reply()
    call("list_events", "events/", limit=1)
    call("get_event", f"events/{event}/")
    call("list_event_deliveries", f"events/{event}/deliveries/")
    call("read_feed", "consumers/acme/feed/", limit=1)
    call("list_deliveries", "deliveries/", state="dead")
    dead = call("list_endpoint_deliveries", f"endpoints/{endpoint}/deliveries/", limit=1)["results"][0]["id"]
    call("get_delivery", f"deliveries/{dead}/")
    statistics(recorder, endpoint)

    call("test_endpoint", f"endpoints/{endpoint}/test/", {})
    receiver.answer = accept_what_is_genuine
    call("run_check_up", f"endpoints/{endpoint}/check-up/", {})
    call("get_check_up", f"endpoints/{endpoint}/check-up/")
    call("pause_endpoint", f"endpoints/{endpoint}/pause/", {"why": "The receiver is being moved."})
    call("replay_delivery", f"deliveries/{dead}/replay/", {"why": "The receiver works again."})
    call("resume_endpoint", f"endpoints/{endpoint}/resume/", {})
    receiver.answer = lambda _received: Reply(503, b"Down for maintenance")
    pump.run()
    asked = {"endpoint": endpoint, "rate_per_second": 50, "why": "The receiver works again."}
    call("create_replay", "replays/", {**asked, "dry_run": True})
    job = call("create_replay", "replays/", asked)["id"]
    recorder.said["create_replay"]["request"] = asked
    call("list_replays", "replays/")
    call("get_replay", f"replays/{job}/")
    call("cancel_replay", f"replays/{job}/cancel/", {"why": "Not today."})

    key = call("create_key", "consumers/acme/keys/", {"name": "Billing", "scopes": ["events:read", "keys:write"]})["id"]
    call("list_keys", "consumers/acme/keys/")
    call("rotate_key", f"consumers/acme/keys/{key}/rotate/", {"overlap_seconds": 3600})
    call("revoke_key", f"consumers/acme/keys/{key}/", method="DELETE")
    call("create_portal_link", "consumers/acme/portal-link/", {"why": "They asked for it."})
    call("rotate_secret", f"endpoints/{endpoint}/rotate-secret/", {"overlap_seconds": 3600})
    recorder.refused(recorder.api.post(f"endpoints/{endpoint}/rotate-secret/"))
    call("list_audit_entries", "audit/", limit=2)
    call("delete_endpoint", f"endpoints/{endpoint}/", method="DELETE", dry_run="true")


def statistics(recorder: Recorder, endpoint: str) -> None:
    """Of ninety buckets two: they teach as much. What this test did lies in the last one, unless a step of eight hours
    has ended meanwhile; the example is the same then."""
    routes = {"get_endpoint_stats": f"endpoints/{endpoint}/stats/", "get_consumer_stats": "consumers/acme/stats/"}
    shown = [recorder.call(operation, path, span="30d") for operation, path in routes.items()]
    if len({each["buckets"][-1]["at"] for each in shown}) > 1:  # one of them ended between the two
        shown = [recorder.call(operation, path, span="30d") for operation, path in routes.items()]
    for each in shown:
        counted = {name: sum(bucket[name] for bucket in each["buckets"]) for name in ("attempts", "delivered", "dead")}
        assert counted == {name: each["total"][name] for name in counted}
        # A month ago nothing was here.
        quiet, last = each["buckets"][0], each["buckets"][-1]
        assert quiet["attempts"] == 0
        each["buckets"] = [{**quiet, "at": each["buckets"][-2]["at"]}, {"at": last["at"], **each["total"]}]


def accept_what_is_genuine(received: Received) -> Reply:
    """As a receiver that verifies, without its work: the check-up's forged and old requests are known by their data."""
    return Reply(400, b"no") if b"9999.5" in received.body else Reply()


def refusals(recorder: Recorder) -> None:
    api, refused = recorder.api, recorder.refused
    key = {"Idempotency-Key": "invoice-4711-paid"}
    producer = Api(keys.issue(role=Role.PRODUCER)[1])
    refused(Api("nobodys").get("consumers/"))
    refused(producer.get("audit/"))
    refused(producer.post("replays/", {"all": True}))
    refused(api.get("consumers/nobody/"))
    refused(api.get("consumers/", limits=5))
    refused(api.get("consumers/", limit=0))
    refused(api.get("consumers/", cursor="x"))
    refused(api.post("consumers/", {"nam": "Acme"}))
    refused(api.post("consumers/", {"name": 5}))
    refused(api.post("consumers/", {"uid": "acme"}))
    refused(api.post("event-types/", {"name": "invoice.paid"}))
    refused(api.post("events/", {**EVENT, "consumer": "nobody"}))
    refused(api.post("events/", {**EVENT, "data": {"amount": "much"}}))
    refused(api.post("events/", {**EVENT, "id": "inv-4712-paid", "data": {"amount": 1}}))
    assert api.post("events/", EVENT, headers=key).status_code == 202
    refused(api.post("events/", {**EVENT, "data": {"amount": 1}}, headers=key))
    refused(api.post("replays/", {}))
