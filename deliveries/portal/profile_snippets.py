"""Receivers to copy for recipes that the eight languages' files do not know: in Python and JavaScript. Pure.

The files receivers/profile_….txt have names in double braces, which are filled with expressions of that language. JSON
writes texts as both languages read them. Lines between `@time` and `@end` are for recipes that sign the time.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from subscriptions.signing.recipe import Recipe

_FOLDER = Path(__file__).parent / "receivers"
_DIGITS = r"([0-9]+)"
_PARTS = re.compile(r"(\{[a-z]+\})")


def python(recipe: Recipe, *, url: str) -> str:
    before = _before_time(recipe)
    said = {
        "{body}": "body",
        "{timestamp}": "timestamp.encode()",
        "{id}": f'headers.get({_text(recipe.id_header)}, "").encode()',
        "{url}": f"{_text(url)}.encode()",
    }
    signed = [said.get(part) or f"b{_text(part)}" for part in _parts(recipe.signed)]
    lead = [{"{timestamp}": "timestamp"}.get(part) or _text(part) for part in _parts(recipe.lead)]
    digest = f'hmac.new(key, signed, "{recipe.hash}")'
    fill = {
        "timestamp": f'headers.get({_text(recipe.timestamp_header)}, "")'
        if recipe.timestamp_header
        else f"(re.match({_text(before + _DIGITS)}, headers.get({_text(recipe.signature_header)}, "
        + '"")) or "  ")[1]',
        "lead": " + ".join(lead) or '""',
        "signed": " + ".join(signed),
        "key": "secret.encode()" if recipe.key == "text" else 'base64.b64decode(secret.removeprefix("whsec_"))',
        "encoded": f"{digest}.hexdigest()"
        if recipe.encoding == "hex"
        else f"base64.b64encode({digest}.digest()).decode()",
    }
    return _filled("profile_python", recipe, fill)


def javascript(recipe: Recipe, *, url: str) -> str:
    said = {
        "{body}": "body",
        "{timestamp}": "timestamp",
        "{id}": f'headers[{_text(_lower(recipe.id_header))}] ?? ""',
        "{url}": _text(url),
    }
    lead = [{"{timestamp}": "timestamp"}.get(part) or _text(part) for part in _parts(recipe.lead)]
    fill = {
        "timestamp": f'headers[{_text(_lower(recipe.timestamp_header))}] ?? ""'
        if recipe.timestamp_header
        else f'headers[{_text(_lower(recipe.signature_header))}]?.match(/^{_before_time(recipe)}{_DIGITS}/)?.[1] ?? ""',
        "lead": " + ".join(lead) or '""',
        "updates": "".join(f".update({said.get(part) or _text(part)})" for part in _parts(recipe.signed)),
        "key": "secret" if recipe.key == "text" else 'Buffer.from(secret.replace(/^whsec_/, ""), "base64")',
        "hash": _text(recipe.hash),
        "encoding": _text(recipe.encoding),
    }
    return _filled("profile_javascript", recipe, fill)


def _filled(name: str, recipe: Recipe, fill: Mapping[str, str]) -> str:
    names = [_lower(each) for each in (recipe.second_header, recipe.signature_header) if each]
    every = {
        **fill,
        "names": ", ".join(map(_text, names)),
        # One that cannot be in a value: the whole value is one signature.
        "separator": _text(recipe.separator if recipe.second_header is None else "\n"),
        "prefix": _text(recipe.prefix),
    }
    lines, wanted = [], True
    for line in _file(name).splitlines():
        if line.startswith("@"):
            wanted = line == "@end" or recipe.signs_time
        elif wanted:
            lines.append(line)
    text = "\n".join(lines)
    return re.sub(r"\{\{(\w+)\}\}", lambda found: every.get(found[1], found[0]), text)


def _parts(template: str) -> list[str]:
    return [part for part in _PARTS.split(template) if part]


def _before_time(recipe: Recipe) -> str:
    return re.sub(r"([^A-Za-z0-9 ])", r"\\\1", recipe.lead.partition("{timestamp}")[0])


def _lower(name: str | None) -> str:
    return (name or "").lower()


def _text(value: str | None) -> str:
    return json.dumps(value or "")


@cache
def _file(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
