"""Builds the docs as a site: stages docs/*.md and a few pages beside them, of which Sphinx makes HTML, strictly.

`python -m website.build [folder]` (`make docs`). The pages are plain Markdown that reads as well in a clone, so what
the site needs is done here: links to files that are no pages become their names, pictures come in pairs, and the
receivers, the API's routes and llms.txt are written from what the project itself uses.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from deliveries.portal.snippets import PLACEHOLDER, snippets
from website import reference

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "website"

# The order of reading. A page of docs/ that stands in none of them comes last, under "More".
CHAPTERS = {
    "Start": ["quick-start", "concepts"],
    "Send and receive": ["emitting", "receiving", "endpoints", "ordering", "catch-up", "rotation", "python-client"],
    "What becomes of it": ["deliveries", "portal", "console", "keys"],
    "Run it": [
        "deploying",
        "upgrading",
        "scaling",
        "settings",
        "operating",
        "runbooks",
        "metrics",
        "logs",
        "traces",
        "limits",
        "security",
        "moving",
    ],
    "Reference": ["reference", "api"],
    "Know it": ["reliability", "performance", "comparison", "decisions/README"],
    "Change it": ["changing", "contributing", "changelog"],
}
ELSEWHERE = {
    "README.md": "index",
    "SECURITY.md": "security",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "clients/python/README.md": "python-client",
    "examples/README.md": "examples",
}
LINK = re.compile(r"(?<!!)\[((?:[^\]\\]|\\.)*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
PICTURES = re.compile(
    r'<picture><source [^>]*srcset="([^"]+)"><img alt="([^"]*)" src="([^"]+)"></picture>', re.MULTILINE
)
LEXERS = {"javascript": "js", "csharp": "csharp", "curl": "sh"}


def build(target: Path) -> int:
    """Sphinx's exit code; the pages are in `target/html`."""
    from sphinx.cmd.build import build_main

    source = target / "source"
    stage(source)
    places = [str(source), str(target / "html"), "-c", str(source), "-d", str(target / "doctrees")]
    code = build_main(["--quiet", "--fail-on-warning", "--keep-going", "--builder", "html", *places])
    shutil.copy(source / "llms.txt", target / "html" / "llms.txt")
    return code


def stage(source: Path) -> None:
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "pictures", source / "pictures")
    shutil.copytree(ROOT / "docs" / "performance", source / "performance")
    (source / "_static").mkdir()
    shutil.copy(HERE / "site.css", source / "_static" / "site.css")
    shutil.copy(HERE / "conf.py", source / "conf.py")
    names = pages()
    for file, name in names.items():
        page = source / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(_for_site(file, name, names))
    (source / "reference.md").write_text(reference.page())
    (source / "llms.txt").write_text(_llms(source))


def pages() -> dict[Path, str]:
    """Each file that becomes a page, and the page's name."""
    own = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")])
    names = {file: file.relative_to(ROOT / "docs").with_suffix("").as_posix() for file in own}
    return names | {ROOT / file: name for file, name in ELSEWHERE.items()}


def chapters() -> dict[str, list[str]]:
    listed = {name for names in CHAPTERS.values() for name in names} | {"index"}
    more = [name for name in pages().values() if name not in listed and "/" not in name]
    return CHAPTERS | {"More": more}


def _for_site(file: Path, name: str, names: dict[Path, str]) -> str:
    text = file.read_text()
    depth = "../" * name.count("/")

    def link(found: re.Match[str]) -> str:
        label, path, anchor = found[1], found[2], found[3] or ""
        target = (file.parent / path).resolve()
        if target in names:
            return f"[{label}]({depth}{names[target]}.md{anchor})"
        if target.suffix == ".svg" and target.is_relative_to(ROOT / "docs"):
            return f"[{label}]({depth}{target.relative_to(ROOT / 'docs').as_posix()})"
        return label if label.startswith("`") else f"`{label.replace(chr(92), '')}`"

    def pair(found: re.Match[str]) -> str:
        dark, alt, light = (depth + found[1], found[2], depth + found[3])
        dark, light = dark.replace("docs/", ""), light.replace("docs/", "")
        pictures = {"light": light, "dark": dark}
        return "".join(f'<img class="only-{kind}" alt="{alt}" src="{src}">' for kind, src in pictures.items())

    text = PICTURES.sub(pair, LINK.sub(link, text)).replace("<!-- receivers -->", "\n".join(_receivers()))
    if name == "index":
        return text + "".join(_contents())
    is_listed = any(name in chapter for chapter in chapters().values())
    return text if is_listed else f"---\norphan: true\n---\n\n{text}"


def _receivers() -> Iterator[str]:
    """As the portal shows them, for the scheme an endpoint has by itself and for the other."""
    for scheme, words in (("timestamped", "timestamped, the default"), ("standard", "Standard Webhooks")):
        for each in snippets(scheme=scheme, url="http://127.0.0.1:8001/"):
            yield f"### {each.title}, {words}\n\n```{LEXERS.get(each.name, each.name)}\n{each.code}\n```\n"
    yield f"`{PLACEHOLDER}` stands for the endpoint's secret, which belongs in the environment."


def _contents() -> Iterator[str]:
    for title, names in chapters().items():
        yield f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def _llms(source: Path) -> str:
    """What there is to read, for programs that read: https://llmstxt.org."""
    lines = [
        "# Webhooks platform\n",
        "> An outbound webhook delivery platform: an event answered with 202 is never lost. It is delivered at least",
        "> once, or it is a visible dead letter that can be replayed.\n",
        "A running deployment describes its API at /api/schema/ (OpenAPI 3.1) and /api/docs/.",
    ]
    for title, names in chapters().items():
        lines.append(f"\n## {title}\n")
        for name in names:
            heading = re.search(r"^# (.+)$", (source / f"{name}.md").read_text(), re.MULTILINE)
            lines.append(f"- [{heading[1] if heading else name}]({name}.html)")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".data" / "website").resolve()))
