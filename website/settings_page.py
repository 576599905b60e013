"""Writes docs/settings.md from webhooks_platform/settings.py: each setting, its default, the comment above it.

A comment stands for the settings right below it. `python -m website.settings_page`
writes the page (`make settings-page`); a test compares.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "webhooks_platform" / "settings.py"
PAGE = ROOT / "docs" / "settings.md"
HEAD = """# Settings

Every setting there is, from the environment or from a file `.env` beside `manage.py`. Lists are comma-separated. What
makes no sense stops the start, with the fix in the message. This page is made from `webhooks_platform/settings.py`
(`make settings-page`).
"""
# Read by the web server and the units, or by libpq and OpenSSL, and by no line of settings.py.
OTHERS = """
## Read by others

| setting | default | meaning |
|---|---|---|
| `ENV_FILE` | `.env` | The file that settings come from, too; empty for none. |
| `GRANIAN_WORKERS` | `2` | Web server processes. |
| `WEB_ADDRESS`, `WEB_PORT` | `127.0.0.1`, `8000` | Where the web server listens; under Compose, the proxy. |
| `PORT`, `DELIVERY_WORKERS`, `DATA_DIR` | `8000`, `2`, `.data` | Of `make up` alone. |
| `PGPASSWORD` | | The database's password, as libpq knows it. |
| `SSL_CERT_FILE` | | The authorities that deliveries trust, as OpenSSL knows it. |
"""


@dataclass
class Section:
    title: str
    rows: list[tuple[str, str, str]] = field(default_factory=list)


def page() -> str:
    sections = [section for section in read(SOURCE.read_text()) if section.rows]
    parts = [HEAD]
    for section in sections:
        rows = "".join(f"| `{name}` | {default} | {meaning} |\n" for name, default, meaning in section.rows)
        parts.append(f"\n## {section.title}\n\n| setting | default | meaning |\n|---|---|---|\n{rows}")
    return "".join(parts) + OTHERS


def read(source: str) -> list[Section]:
    """The sections of the file, each with (name, default, meaning)."""
    lines = source.splitlines()
    calls = {call.lineno: call for call in _env_calls(ast.parse(source))}
    sections, comment, commenting = [Section("General")], "", False
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if found := re.match(r"# ── (.+?) ─", text):
            sections.append(Section(found[1]))
            comment = ""
        elif text.startswith("# "):
            comment = f"{comment} {text[2:]}" if commenting else text[2:]
        elif number not in calls:
            comment = ""
        commenting = text.startswith("# ") and not text.startswith("# ──")
        if number in calls:
            sections[-1].rows.append(_row(calls[number], comment))
    return sections


def _row(call: ast.Call, comment: str) -> tuple[str, str, str]:
    [name, *_] = call.args
    assert isinstance(name, ast.Constant)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return str(name.value), _default(given.get("default")), comment.replace("|", "\\|").strip()


def _default(node: ast.expr | None) -> str:
    if node is None:
        return "required"
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = _computed(node)
    if value in ("", []):
        return ""
    return f"`{','.join(map(str, value)) if isinstance(value, list) else value}`"


def _computed(node: ast.expr) -> object:
    """A product is worked out; whatever else there is, the source says best."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = (_computed(side) if isinstance(side, ast.BinOp) else side for side in (node.left, node.right))
        sides = [side.value if isinstance(side, ast.Constant) else side for side in (left, right)]
        if all(isinstance(side, int) for side in sides):
            return sides[0] * sides[1]  # type: ignore[operator]
    return ast.unparse(node)


def _env_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """`env.int("NAME", …)` and the like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.match(r"env\.(?!read_env)\w+\(", ast.unparse(node)):
            yield node


if __name__ == "__main__":
    PAGE.write_text(page())
