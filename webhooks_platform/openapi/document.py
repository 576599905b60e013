"""The OpenAPI document: what the views, their serializers and their typed answers declare, in OpenAPI's words.

Nothing is said twice: roles, scopes, parameters and fields are those that requests are checked by; answers are the
types that mypy holds the code to. `docs/openapi.json` is this document, committed; a test fails where the two differ.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin

from subscriptions.api.describe import Operation, Schema, object_schema, schema_of, serializer_schema
from subscriptions.api.known_names import Names
from subscriptions.api.problem_codes import ALWAYS, CODES, OF_CHANGES, OF_KEYS
from subscriptions.api.problems import CONTENT_TYPE, ProblemOut
from subscriptions.api.views import ApiView
from webhooks_platform.api_routes import ROUTES, ApiRoute
from webhooks_platform.openapi import prose, webhooks
from webhooks_platform.openapi.index import INDEX, paragraphs, scope_of

JSON = "application/json"
# Real answers, recorded by a test (tests/integration/webhooks_platform/openapi/test_examples.py).
EXAMPLES: dict[str, Any] = json.loads((Path(__file__).parent / "examples.json").read_text())

_ALLOWANCE = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_COMMON_HEADERS = ("X-Request-Id", *_ALLOWANCE)


@lru_cache(maxsize=1)
def document() -> Schema:
    """The whole of it, the same for everybody. Callers do not change it."""
    return _Builder().build()


class _Builder:
    def __init__(self) -> None:
        self._schemas: dict[str, Schema] = {}
        self._responses: dict[str, Schema] = {}

    def build(self) -> Schema:
        paths = {route.path: self._path(route) for route in (INDEX, *ROUTES)}
        hooks = webhooks.section(self._refer)
        return {
            "openapi": "3.1.1",
            "info": prose.INFO,
            "servers": [{"url": "/", "description": "Where you found this."}],
            "security": [{"key": []}],
            "tags": [{"name": name, "description": text} for name, text in prose.TAGS.items()],
            "paths": paths,
            "webhooks": hooks,
            "components": {
                "schemas": dict(sorted(self._schemas.items())),
                "responses": dict(sorted(self._responses.items())),
                "parameters": prose.PARAMETERS | webhooks.PARAMETERS,
                "headers": prose.HEADERS,
                "securitySchemes": {"key": prose.KEY},
            },
        }

    # ── Paths ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _path(self, route: ApiRoute) -> Schema:
        in_path: list[Schema] = [
            {"name": name, "in": "path", "required": True, **prose.PATH_PARAMETERS[name]}
            for name in _names_in(route.template)
        ]
        shown: Schema = {"parameters": [*in_path, {"$ref": "#/components/parameters/RequestId"}]}
        return shown | {method.lower(): self._operation(route, method) for method in route.view.roles}

    def _operation(self, route: ApiRoute, method: str) -> Schema:
        view, operation = route.view, route.view.operations[method]
        summary, *more = paragraphs(view, method)
        scope = scope_of(view, method)
        roles = [role.value for role in view.roles[method]]
        shown: Schema = {
            "operationId": operation.id,
            "summary": summary.removesuffix("."),
            "description": "\n\n".join([*more, prose.who_may(roles, scope)]),
            "tags": [prose.tag_of(view)],
            "security": [{"key": [scope] if scope else []}],
            "x-roles": roles,
            "x-scopes": [scope] if scope else [],
            "x-problem-codes": sorted(codes_of(route, method)),
        }
        if parameters := self._parameters(view, method):
            shown["parameters"] = parameters
        if body := self._body(view, method, operation):
            shown["requestBody"] = body
        return shown | {"responses": self._answers(route, method, operation)}

    def _parameters(self, view: type[ApiView], method: str) -> list[Schema]:
        query = [
            {"name": each.name, "in": "query", "description": each.description, "schema": dict(each.schema)}
            for each in view.declared_parameters(method)
        ]
        headers = [{"$ref": "#/components/parameters/IdempotencyKey"}] if _heeds_keys(view, method) else []
        traced = [{"$ref": "#/components/parameters/Traceparent"}] if view.scopes[method] == "events:write" else []
        return [*query, *headers, *traced]

    def _body(self, view: type[ApiView], method: str, operation: Operation) -> Schema | None:
        declared: type[Any] | Names | None = operation.body or view.fields.get(method)
        if declared is None:
            return None
        schema = self._request(declared, partial=method == "PATCH")
        shown = self._schemas[schema["$ref"].rpartition("/")[2]]
        content: Schema = {"schema": schema}
        if example := EXAMPLES.get(operation.id, {}).get("request"):
            content["examples"] = {"sent": {"summary": "As a test sent it", "value": example}}
        return {"required": bool(shown.get("required")), "content": {JSON: content}}

    def _answers(self, route: ApiRoute, method: str, operation: Operation) -> Schema:
        good = {operation.status: operation.answer, **operation.also}
        answers = {
            str(status): self._answer(route.view, method, operation, status, declared)
            for status, declared in good.items()
        }
        by_status: dict[int, list[str]] = {}
        for code in codes_of(route, method):
            by_status.setdefault(CODES[code].status, []).append(code)
        refusals = {str(status): self._refusal(status, tuple(sorted(codes))) for status, codes in by_status.items()}
        return dict(sorted((answers | refusals).items()))

    def _answer(self, view: type[ApiView], method: str, operation: Operation, status: int, declared: Any) -> Schema:
        headers = [*_COMMON_HEADERS, *(["Idempotent-Replayed"] if _heeds_keys(view, method) else [])]
        shown: Schema = {
            "description": prose.answer(declared) if declared is not None else "Done. The answer has no body.",
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        }
        if declared is None:
            return shown
        content: Schema = {"schema": schema_of(declared, self._refer)}
        if (example := EXAMPLES.get(operation.id, {}).get("answers", {}).get(str(status))) is not None:
            content["examples"] = {"answered": {"summary": "As a test received it", "value": example}}
        return shown | {"content": {JSON: content}}

    def _refusal(self, status: int, codes: tuple[str, ...]) -> Schema:
        """Refusals with the same codes are one component: most routes share most of them."""
        name = "-".join(["Problem", str(status), *codes]) if len(codes) < 4 else f"Problem-{status}-{_digest(codes)}"
        usual = tuple(sorted(code for code in ALWAYS if CODES[code].status == status))
        name = f"Problem{status}" if codes == usual else name
        if name not in self._responses:
            self._responses[name] = self._refusal_itself(status, codes)
        return {"$ref": f"#/components/responses/{name}"}

    def _refusal_itself(self, status: int, codes: tuple[str, ...]) -> Schema:
        headers = {
            401: ["WWW-Authenticate"],
            429: ["Retry-After", *_ALLOWANCE],
            409: ["Retry-After"],
            503: ["Retry-After"],
        }.get(status, [])
        headers = ["X-Request-Id", *headers]
        known = {code: EXAMPLES["problems"][code] for code in codes if code in EXAMPLES["problems"]}
        self._refer(ProblemOut)
        content: Schema = {
            "schema": {
                "$ref": "#/components/schemas/Problem",
                "properties": {"status": {"const": status}, "code": {"enum": list(codes)}},
            }
        }
        if known:
            content["examples"] = {code: {"summary": CODES[code].text, "value": value} for code, value in known.items()}
        return {
            "description": "\n".join(f"- `{code}`: {CODES[code].text}" for code in codes),
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
            "content": {CONTENT_TYPE: content},
        }

    # ── Schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _refer(self, declared: Any) -> Schema:
        """The reference to a typed answer, which is kept under its name."""
        name = _name(declared)
        if name not in self._schemas:
            # Before its inside, which may lead here again.
            self._schemas[name] = {}
            self._schemas[name] = object_schema(declared, self._refer)
        return {"$ref": f"#/components/schemas/{name}"}

    def _request(self, declared: Any, *, partial: bool) -> Schema:
        name = declared.__name__.removesuffix("In") + ("Change" if partial else "") + "Request"
        if name not in self._schemas:
            self._schemas[name] = {}
            self._schemas[name] = (
                serializer_schema(declared(), partial=partial)
                if hasattr(declared, "_declared_fields")
                else object_schema(declared, lambda inner: self._request(inner, partial=False), closed=True)
            )
        return {"$ref": f"#/components/schemas/{name}"}


def codes_of(route: ApiRoute, method: str) -> set[str]:
    """Every code that a request may be refused with."""
    view = route.view
    found = {*ALWAYS, *view.operations[method].problems}
    if _names_in(route.template):
        found.add("not_found")
    if any(each.name == "cursor" for each in view.declared_parameters(method)):
        found.add("invalid_cursor")
    if method != "GET" and view.scopes[method] != "events:write":
        found |= set(OF_CHANGES)
    if _heeds_keys(view, method):
        found |= set(OF_KEYS)
    return found


def _heeds_keys(view: type[ApiView], method: str) -> bool:
    return method == "POST" and view.idempotent


def _names_in(template: str) -> list[str]:
    return [part[1:-1] for part in template.split("/") if part.startswith("{")]


def _name(declared: Any) -> str:
    """`ConsumerOut` → `Consumer`, `Page[ConsumerOut]` → `ConsumerPage`."""
    base = get_origin(declared) or declared
    items = "".join(_name(each) for each in get_args(declared))
    return items + str(base.__name__).removesuffix("Out")


def _digest(codes: tuple[str, ...]) -> str:
    """A name from what sets these codes apart from the usual ones."""
    usual = set(ALWAYS)
    return "-".join(code for code in codes if code not in usual)
