"""The OpenAPI document as its reader (templates/api/docs.html) shows it: groups, operations, rows of fields."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from subscriptions.api.describe import Schema
from subscriptions.api.problem_codes import ALWAYS, CODES
from webhooks_platform.openapi.start import STEPS

# Fields within fields within fields: deeper than this, nothing here goes.
_DEEPEST = 5
# What every request may carry is told once, at the top.
_SAID_ABOVE = ({"$ref": "#/components/parameters/RequestId"},)
_LIMITS = {
    "minLength": "not empty", "maxLength": "at most {} characters", "minimum": "at least {}",
    "maximum": "at most {}", "minItems": "not empty", "maxItems": "at most {} items",
    "maxProperties": "at most {} entries", "default": "default {}", "const": "always {}",
}  # fmt: skip


@dataclass(frozen=True)
class ShownField:
    """One field, parameter or header."""

    name: str
    depth: int
    type: str
    is_required: bool
    text: SafeString
    # Such as `at most 255 characters`.
    limits: str
    values: list[str]


@dataclass(frozen=True)
class ShownAnswer:
    status: str
    text: SafeString
    rows: list[ShownField]
    example: SafeString | None


@dataclass(frozen=True)
class ShownRefusal:
    status: int
    code: str
    text: SafeString


@dataclass(frozen=True)
class ShownOperation:
    id: str
    method: str
    path: str
    summary: SafeString
    text: SafeString
    roles: list[str]
    scopes: list[str]
    parameters: list[ShownField]
    body: list[ShownField]
    body_example: SafeString | None
    answers: list[ShownAnswer]
    # Besides those that every request may meet.
    refusals: list[ShownRefusal]
    # None for a webhook, which is sent and not asked for.
    curl: str | None


@dataclass(frozen=True)
class ShownGroup:
    id: str
    title: str
    text: SafeString
    operations: list[ShownOperation]


@dataclass(frozen=True)
class ShownStep:
    title: str
    text: SafeString
    shell: str


@dataclass(frozen=True)
class ShownDocument:
    title: str
    summary: str
    text: SafeString
    # What to do first.
    start: list[ShownStep]
    groups: list[ShownGroup]
    # Those that every request may meet.
    refusals: list[ShownRefusal]
    # How each signature is made.
    version: str


def read(document: Schema) -> ShownDocument:
    return _Reader(document).page()


class _Reader:
    def __init__(self, document: Schema) -> None:
        self._document = document

    def page(self) -> ShownDocument:
        info = self._document["info"]
        return ShownDocument(
            title=info["title"],
            summary=info["summary"],
            text=markup(info["description"]),
            start=[ShownStep(step.title, markup(step.text), step.shell) for step in STEPS],
            groups=[self._group(tag) for tag in self._document["tags"]],
            refusals=_refusals(ALWAYS),
            version=info["version"],
        )

    def _group(self, tag: Schema) -> ShownGroup:
        found = [operation for operation, shown in self._operations() if tag["name"] in shown["tags"]]
        return ShownGroup(_slug(tag["name"]), tag["name"], markup(tag["description"]), found)

    def _operations(self) -> Iterator[tuple[ShownOperation, Schema]]:
        for path, item in self._document["paths"].items():
            for method, shown in item.items():
                if method != "parameters":
                    parameters = [*item.get("parameters", []), *shown.get("parameters", [])]
                    yield self._operation(method.upper(), path, shown, parameters, is_ours=True), shown
        for name, item in self._document["webhooks"].items():
            shown = item["post"]
            yield self._operation("POST", name, shown, shown["parameters"], is_ours=False), shown

    def _operation(
        self, method: str, path: str, shown: Schema, parameters: list[Schema], *, is_ours: bool
    ) -> ShownOperation:
        content = self._content(shown.get("requestBody", {}))
        value = _example(content)
        return ShownOperation(
            id=shown["operationId"],
            method=method if is_ours else "EVENT",
            path=path,
            summary=inline(shown["summary"]),
            text=markup(_without_who(shown.get("description", ""))),
            roles=shown.get("x-roles", []),
            scopes=shown.get("x-scopes", []),
            parameters=[self._parameter(each) for each in parameters if each not in _SAID_ABOVE],
            body=list(self._rows(content.get("schema", {}))),
            body_example=None if value is None else highlighted(value),
            answers=[
                self._answer(status, answer)
                for status, answer in shown["responses"].items()
                if status.startswith("2") or not is_ours
            ],
            refusals=_refusals(code for code in shown.get("x-problem-codes", []) if code not in ALWAYS),
            curl=_curl(method, path, value) if is_ours else None,
        )

    def _answer(self, status: str, shown: Schema) -> ShownAnswer:
        content = self._content(shown)
        value = _example(content)
        return ShownAnswer(
            status,
            markup(shown["description"]),
            list(self._rows(content.get("schema", {}))),
            None if value is None else highlighted(value),
        )

    def _content(self, holder: Schema) -> Schema:
        found: Schema = holder.get("content", {}).get("application/json", {})
        return found

    def _parameter(self, shown: Schema) -> ShownField:
        shown = self._resolved(shown)
        schema = shown["schema"]
        return ShownField(
            name=shown["name"],
            depth=0,
            type=f"{_type(schema)}, in the {shown['in']}",
            is_required=shown.get("required", False),
            text=markup(shown["description"]),
            limits=_limits(schema),
            values=[json.dumps(value).strip('"') for value in schema.get("enum", [])],
        )

    def _rows(self, schema: Schema, depth: int = 0) -> Iterator[ShownField]:
        schema = self._resolved(schema)
        if schema.get("type") == "array":
            yield from self._rows(schema["items"], depth)
            return
        required = schema.get("required", [])
        for name, field in schema.get("properties", {}).items() if depth < _DEEPEST else ():
            whole = self._resolved(field)
            items = self._resolved(whole.get("items", {}))
            yield ShownField(
                name=name,
                depth=depth,
                type=_type(whole, items),
                is_required=name in required,
                text=markup(field.get("description") or whole.get("description", "")),
                limits=_limits(whole),
                values=[json.dumps(value).strip('"') for value in (whole.get("enum") or items.get("enum") or [])],
            )
            yield from self._rows(whole, depth + 1)

    def _resolved(self, schema: Schema) -> Schema:
        """What a reference leads to, with what is said beside it."""
        if "anyOf" in schema:
            return self._resolved({key: value for key, value in schema.items() if key != "anyOf"} | schema["anyOf"][0])
        if "$ref" not in schema:
            return schema
        found: Any = self._document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if "properties" in beside:
            inner = found.get("properties", {})
            narrowed = {name: {**inner.get(name, {}), **given} for name, given in beside["properties"].items()}
            beside["properties"] = inner | narrowed
        return {**found, **beside}


def _refusals(codes: Any) -> list[ShownRefusal]:
    return sorted(
        (ShownRefusal(CODES[code].status, code, inline(CODES[code].text)) for code in codes),
        key=lambda refusal: (refusal.status, refusal.code),
    )


def _type(schema: Schema, items: Schema | None = None) -> str:
    given = schema.get("type", "anything")
    names = [given] if isinstance(given, str) else list(given)
    if "array" in names and items:
        inner = items.get("type", "anything")
        names[names.index("array")] = f"array of {inner if isinstance(inner, str) else ' or '.join(inner)}s"
    if "string" in names and schema.get("format") in ("date-time", "uri"):
        names[names.index("string")] = {"date-time": "time", "uri": "URL"}[schema["format"]]
    return " or ".join(names)


def _limits(schema: Schema) -> str:
    found = [
        words.format(json.dumps(schema[name], ensure_ascii=False)) for name, words in _LIMITS.items() if name in schema
    ]
    return ", ".join(found)


def _example(content: Schema) -> Any:
    examples = content.get("examples", {})
    return next(iter(examples.values()))["value"] if examples else None


def _curl(method: str, path: str, body: Any) -> str:
    filled = re.sub(r"{(\w+)}", lambda found: f"${found[1].upper()}", path)
    lines = [f'curl -X {method} "$URL{filled}"' if method != "GET" else f'curl "$URL{filled}"']
    lines.append('  -H "Authorization: Bearer $KEY"')
    if method in ("POST", "PATCH") and body:
        text = json.dumps(body, ensure_ascii=False, indent=2).replace("'", "'\\''")
        lines += ['  -H "Content-Type: application/json"', f"  -d '{text}'"]
    return " \\\n".join(lines)


def _without_who(text: str) -> str:
    """The page shows roles and scopes in a place of their own."""
    return "\n\n".join(part for part in text.split("\n\n") if not part.startswith(("For any key", "For keys of ")))


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def markup(text: str) -> SafeString:
    """The little of Markdown that our own texts use: paragraphs, lists, headings, code and bold. All of it escaped."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n|\n(?=### )", text.strip()):
        heading, _, rest = block.partition("\n") if block.startswith("### ") else ("", "", block)
        if heading:
            title = heading.removeprefix("### ")
            parts.append(f'<h3 id="about-{_slug(title)}">{inline(title)}</h3>')
        if rest.startswith("- "):
            items = re.split(r"\n- ", rest.removeprefix("- "))
            parts.append("<ul>" + "".join(f"<li>{inline(item)}</li>" for item in items) + "</ul>")
        elif rest:
            parts.append(f"<p>{inline(rest)}</p>")
    return mark_safe("".join(parts))  # noqa: S308  # put together from escaped text


def inline(text: str) -> SafeString:
    shown = str(escape(" ".join(text.split())))
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)
    shown = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", shown)
    return mark_safe(shown)  # noqa: S308  # escaped above


_TOKEN = re.compile(r'("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)')


def highlighted(value: Any) -> SafeString:
    """JSON with a class for names, texts, numbers and words."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    parts, end = [], 0
    for found in _TOKEN.finditer(text):
        kind = "word" if found[3] else "number" if found[4] else "name" if found[2] else "text"
        token = found[1] or found[0]
        parts += [escape(text[end : found.start()]), f'<span class="{kind}">{escape(token)}</span>']
        parts.append(escape(found[2] or "") if found[1] else "")
        end = found.end()
    return mark_safe("".join([*parts, escape(text[end:])]))  # noqa: S308  # every part is escaped
