"""Receivers to copy, filled in with an endpoint's scheme: in eight languages for our own two, in two for all others
(profile_snippets.py). The files are in receivers/. Pure.

Lines between `@timestamped`, `@standard` and `@end` are for endpoints with that scheme; the rest is for both.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deliveries.portal import profile_snippets
from subscriptions.signing.ready_made import READY_MADE, STANDARD, TIMESTAMPED
from subscriptions.signing.recipe import Recipe

# Never the secret itself: what is copied from a page ends up in a repository.
PLACEHOLDER = "whsec_…"
_FOLDER = Path(__file__).parent / "receivers"
_LANGUAGES = {
    "python": "Python", "javascript": "JavaScript", "go": "Go", "java": "Java", "ruby": "Ruby", "php": "PHP",
    "csharp": "C#", "curl": "curl",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snippet:
    name: str
    title: str
    code: str


def snippets(*, scheme: str, url: str, recipe: Recipe | None = None) -> list[Snippet]:
    if scheme not in (TIMESTAMPED, STANDARD):
        return [
            Snippet(
                name, _LANGUAGES[name], write(recipe or READY_MADE[scheme], url=url).replace("{{secret}}", PLACEHOLDER)
            )
            for name, write in (("python", profile_snippets.python), ("javascript", profile_snippets.javascript))
        ]
    return [Snippet(name, title, code(name, scheme=scheme, url=url)) for name, title in _LANGUAGES.items()]


def code(name: str, *, scheme: str, url: str) -> str:
    lines, wanted = [], True
    for line in _file(name).splitlines():
        if line.startswith("@"):
            wanted = line[1:] in (scheme, "end")
        elif wanted:
            lines.append(line)
    # Inside single quotes of a shell.
    safe_url = url.replace("'", "%27")
    return "\n".join(lines).replace("{{secret}}", PLACEHOLDER).replace("{{url}}", safe_url)


@cache
def _file(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
