"""What must hold of every answer, whatever was asked and whoever asked it."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from tests.fuzz.requests import Request
from tests.fuzz.wire import Answer
from tests.tenants import Tenant, Tenants

_CODE = re.compile(r"[a-z]+(_[a-z]+)*")


def judge(request: Request, role: str, answer: Answer, tenants: Tenants) -> Iterator[str]:
    """What is wrong with the answer; nothing for a good one."""
    if answer.status >= 500:
        yield f"{answer.status}"
    if 200 <= answer.status < 300:
        yield from _success(request, role, answer, tenants)
    elif request.method != "HEAD":
        yield from _refusal(answer)
    yield from _leaks(request, role, answer, tenants)


def owner_of(role: str, tenants: Tenants) -> Tenant | None:
    return {"consumer": tenants.ours, "another consumer": tenants.theirs}.get(role)


def stranger_to(role: str, tenants: Tenants) -> Tenant | None:
    """The other consumer, of whom this one hears nothing."""
    return {"consumer": tenants.theirs, "another consumer": tenants.ours}.get(role)


def _refusal(answer: Answer) -> Iterator[str]:
    if answer.headers.get("content-type") != "application/problem+json":
        yield f"{answer.status} is no problem document but {answer.headers.get('content-type')}"
        return
    document = json.loads(answer.body)
    if document.get("status") != answer.status:
        yield f"the document says {document.get('status')}, the answer {answer.status}"
    if not _CODE.fullmatch(str(document.get("code"))) or not document.get("title") or not document.get("detail"):
        yield "the document lacks a code, a title or a detail"
    for error in document.get("errors", []):
        if set(error) != {"pointer", "detail"} or not all(isinstance(value, str) for value in error.values()):
            yield f"an error is not a pointer and a detail: {error}"


def _success(request: Request, role: str, answer: Answer, tenants: Tenants) -> Iterator[str]:
    if role == "none":
        yield "a success without a key"
    if answer.status == 204 or request.method == "HEAD":
        return
    if answer.headers.get("content-type") != "application/json":
        yield f"a success is {answer.headers.get('content-type')}"
        return
    document = json.loads(answer.body)
    if (own := owner_of(role, tenants)) is not None:
        if "theirs" in request.owners if role == "consumer" else "ours" in request.owners:
            yield "a success on another consumer's path"
        names = {own.consumer.public_id, own.consumer.uid}
        if strangers := {name for name in _consumers(document) if name not in names}:
            yield f"the answer is about {strangers}"


def _consumers(document: Any) -> Iterator[Any]:
    """Whose the answer says its things are; payloads are the producer's business."""
    if isinstance(document, dict):
        if "consumer" in document:
            yield document["consumer"]
        for name, inner in document.items():
            if name not in ("data", "metadata", "request_body"):
                yield from _consumers(inner)
    elif isinstance(document, list):
        for inner in document:
            yield from _consumers(inner)


def _leaks(request: Request, role: str, answer: Answer, tenants: Tenants) -> Iterator[str]:
    """What the request said itself may come back."""
    heard = f"{answer.headers} {answer.body.decode(errors='replace')}"
    said = f"{unquote(request.target)} {request.headers} {request.body.decode(errors='replace')}"
    forbidden = set(tenants.ours.secrets | tenants.theirs.secrets)
    if role == "none":
        forbidden |= tenants.ours.marks | tenants.theirs.marks
    elif (stranger := stranger_to(role, tenants)) is not None:
        forbidden |= stranger.marks
    for mark in sorted(forbidden):
        if mark in heard and mark not in said:
            yield f"the answer holds {mark}"
