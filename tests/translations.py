"""What the portal says, read from its templates and modules, and what its German catalogue holds. Needs no gettext."""

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.utils.translation.template import templatize

ROOT = Path(settings.BASE_DIR)
CATALOGUE = ROOT / "locale" / "de" / "LC_MESSAGES" / "django.po"
TEMPLATES = sorted((ROOT / "templates" / "portal").glob("*.html"))
MODULES = [
    *sorted((ROOT / "deliveries" / "portal").glob("*.py")),
    ROOT / "deliveries" / "pages" / "idempotent_forms.py",
    ROOT / "deliveries" / "pages" / "story.py",
    *(
        ROOT / "deliveries" / each
        for each in (
            "browse/words.py",
            "browse/criteria.py",
            "actions/deliveries.py",
            "actions/endpoints.py",
            "api/endpoints.py",
            "endpoint_tests/trial_slots.py",
            "replay.py",
        )
    ),
    *(
        ROOT / "subscriptions" / each
        for each in (
            "audit.py",
            "guards/headers.py",
            "guards/urls.py",
            "reading/times.py",
            "secrets/own_secrets.py",
            "signing/schemes.py",
        )
    ),
    ROOT / "deliveries" / "templatetags" / "portal.py",
]
_CALLS = {"_": 1, "gettext": 1, "gettext_noop": 1, "ngettext": 2, "pgettext": 2}
_IN_TEMPLATES = re.compile(r"\b(?:gettext|_|ngettext|pgettext)\(.*?\)(?=\s)", re.DOTALL)
# What a template is made of, besides text: tags of ours, variables, comments, HTML.
_MARKUP = re.compile(
    r"(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}"
    r"|<[a-zA-Z/!](?:[^<>\"'{}]|\"(?:[^\"{}]|\{%.*?%\}|\{\{.*?\}\})*\"|'[^']*'|\{%.*?%\}|\{\{.*?\}\})*>)",
    re.DOTALL,
)


class Said(NamedTuple):
    """One text: its context and its plural, where it has them."""

    text: str
    plural: str = ""
    context: str = ""


def said() -> dict[Said, str]:
    """Every text, and the file it was first found in."""
    found: dict[Said, str] = {}
    for path in TEMPLATES:
        for call in _IN_TEMPLATES.findall(templatize(path.read_text()) + " "):
            for each in _calls(call):
                found.setdefault(each, path.name)
    for path in MODULES:
        for each in _calls(path.read_text()):
            found.setdefault(each, path.name)
    return found


def _calls(source: str) -> Iterator[Said]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _CALLS:
            continue
        given = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if len(given) < _CALLS[node.func.id]:
            continue
        if node.func.id == "ngettext":
            yield Said(given[0], plural=given[1])
        elif node.func.id == "pgettext":
            yield Said(given[1], context=given[0])
        else:
            yield Said(given[0])


def german() -> dict[Said, list[str]]:
    """The catalogue's source, by its entries."""
    return {entry: texts for entry, texts in map(_entry, CATALOGUE.read_text().split("\n\n")[1:]) if entry.text}


def compiled() -> dict[Said, list[str]]:
    """What programs read: the same, from the compiled file."""
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        catalogue: dict[object, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    found: dict[tuple[str, str], list[str]] = {}
    for key, text in sorted(catalogue.items(), key=str):
        name, _ = key if isinstance(key, tuple) else (str(key), 0)
        context, _, rest = name.rpartition("\x04")
        found.setdefault((context, rest), []).append(text)
    return {Said(text, context=context): texts for (context, text), texts in found.items() if text}


def unmarked(path: Path) -> list[str]:
    """Text of a template that no tag translates."""
    found, inside = [], 0
    for index, part in enumerate(_MARKUP.split(path.read_text())):
        if index % 2:
            inside += len(re.findall(r"^\{% blocktranslate|^<pre\b", part))
            inside -= len(re.findall(r"^\{% endblocktranslate|^</pre\b", part))
            found += re.findall(r"\b(?:aria-label|title|label|hint)=\"([A-Za-z][^\"{}]*)\"", part)
        elif not inside and re.search("[A-Za-z]{2}", part):
            found.append(" ".join(part.split()))
    return found


def _entry(block: str) -> tuple[Said, list[str]]:
    values = {name: ast.literal_eval(value) for name, value in re.findall(r"^(msg\S+) (\".*\")$", block, re.MULTILINE)}
    entry = Said(values.get("msgid", ""), values.get("msgid_plural", ""), values.get("msgctxt", ""))
    return entry, [text for name, text in sorted(values.items()) if name.startswith("msgstr")]
