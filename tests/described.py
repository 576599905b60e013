"""Every answer that tests get from the API is held to the OpenAPI document: its status, its shape, its problem code.

Django's test client is listened to; a fixture fails the test whose exchanges were not as described (tests/conftest.py).
Where a request was accepted, its body must fit what the document says may be sent.
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jsonschema_rs
from django.http import HttpResponse
from django.test.client import FakePayload

from webhooks_platform.openapi.document import document

# What was found since it was emptied last, in words.
mismatches: list[str] = []


Handler = Callable[[Any, dict[str, Any]], Any]


def listening(handle: Handler) -> Handler:
    """A handler of Django's test client that compares what it lets through."""

    def listen(self: Any, environ: dict[str, Any]) -> Any:
        body, payload = b"", environ.get("wsgi.input")
        if isinstance(payload, FakePayload):
            body = payload.read()
            environ["wsgi.input"] = FakePayload(body)
        answer = handle(self, environ)
        if environ["PATH_INFO"].startswith("/api/v1/") and not answer.streaming:
            compare(environ["REQUEST_METHOD"], environ["PATH_INFO"], body, answer)
        return answer

    return listen


def compare(method: str, path: str, body: bytes, answer: HttpResponse) -> None:
    found = mismatch(method, path, body, answer)
    if found is not None:
        mismatches.append(f"{method} {path} → {answer.status_code} {answer.content[:300]!r}: {found}")


def mismatch(method: str, path: str, body: bytes, answer: HttpResponse) -> str | None:
    """What the document does not say about this exchange; None where it says all."""
    item = _item(path)
    if item is None or method in ("HEAD", "OPTIONS"):
        return None
    if method.lower() not in item:
        # Whether there is a key is looked at first.
        return None if answer.status_code in (401, 405, 429) else "the document has no such method"
    operation = item[method.lower()]
    described = operation["responses"].get(str(answer.status_code))
    if described is None:
        return "the document has no such status"
    described = _resolved(described)
    if undeclared := _headers(answer) - {name.lower() for name in described.get("headers", {})}:
        return f"the document has no such header: {undeclared}"
    if not answer.content:
        return "there is no body" if "content" in described else None
    [(content_type, media)] = described.get("content", {"": {}}).items()
    if answer["Content-Type"] != content_type:
        return f"its type is {answer['Content-Type']}, the document says {content_type or 'no body'}"
    said = json.loads(answer.content)
    if answer.status_code >= 400:
        return None if said["code"] in operation["x-problem-codes"] else "the document has no such code"
    problem = _error(media["schema"], said, closed=True)
    # An event of a batch that is not as it should be is refused by itself.
    if problem is None and body and operation["operationId"] != "emit_events":
        sent = json.loads(body)
        problem = _error(operation["requestBody"]["content"]["application/json"]["schema"], sent) if sent else None
    return problem


def _headers(answer: HttpResponse) -> set[str]:
    """Those of ours that say something about the exchange; on a refusal, the limit's are not worth a word."""
    told = {name.lower() for name in answer.headers}
    ours = {"retry-after", "idempotent-replayed", "www-authenticate"}
    return told & ours if answer.status_code >= 400 else {name for name in told if name in ours or "ratelimit" in name}


def _item(path: str) -> Any:
    for pattern, item in _paths():
        if pattern.fullmatch(path):
            return item
    return None


@lru_cache(maxsize=1)
def _paths() -> list[tuple[re.Pattern[str], Any]]:
    """Paths without names first: `events/batch/` is no event."""
    ordered = sorted(document()["paths"].items(), key=lambda entry: entry[0].count("{"))
    return [(re.compile(re.sub(r"{\w+}", "[^/]+", path).rstrip("/") + "/?"), item) for path, item in ordered]


def _resolved(described: Any) -> Any:
    if "$ref" not in described:
        return described
    return document()["components"]["responses"][described["$ref"].rpartition("/")[2]]


def _error(schema: Any, value: Any, *, closed: bool = False) -> str | None:
    errors = list(_validator(json.dumps(schema), closed).iter_errors(value))
    return "; ".join(f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in errors[:3]) or None


@lru_cache(maxsize=512)
def _validator(schema: str, closed: bool) -> Any:
    """`closed`: a field that the document does not name is a mismatch, although clients have to bear it."""
    components = document()["components"]["schemas"]
    whole = {**json.loads(schema), "components": {"schemas": _closed(components) if closed else components}}
    # Of what comes in, a little more is read than is promised: a zone's offset with seconds, for instance.
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=closed)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _closed(value) for name, value in schema.items()}
    is_object = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return inner | ({"additionalProperties": False} if is_object and "additionalProperties" not in schema else {})
