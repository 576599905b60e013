"""What the command shows: tables for people, JSON lines for programs. Results on stdout, all else on stderr."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

_COLOURS = {"green": "32", "red": "31", "yellow": "33", "grey": "90"}
_GOOD = {"accepted", "delivered", "pass", "done", "active"}
_BAD = {"refused", "dead", "fail", "disabled"}


class Screen:
    def __init__(self, *, as_json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json = as_json
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._in_colour = self._out.isatty() and not os.environ.get("NO_COLOR")

    def document(self, document: Mapping[str, Any], text: str, *, colour: str = "") -> None:
        """One result: the document for programs, the text for people."""
        self._print(json.dumps(document, ensure_ascii=False) if self.as_json else self._coloured(_plain(text), colour))

    def table(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        rows = list(rows)
        if self.as_json:
            for row in rows:
                self._print(json.dumps(row, ensure_ascii=False))
            return
        cells = [[_plain(_cell(row.get(column))) for column in columns] for row in rows]
        widths = [max(map(len, each)) for each in zip([name.upper() for name in columns], *cells, strict=True)]
        room = shutil.get_terminal_size((120, 24)).columns if self._out.isatty() else 10_000
        self._print(self._coloured(_fitted([name.upper() for name in columns], widths, room), "grey"))
        for texts in cells:
            colour = next((_state_colour(text) for text in texts if _state_colour(text)), "")
            self._print(self._coloured(_fitted(texts, widths, room), colour))

    def note(self, text: str) -> None:
        """For people only: progress, hints."""
        if not self.as_json:
            self._err.write(_plain(text) + "\n")
            self._err.flush()

    def error(self, text: str, *, document: Mapping[str, Any] | None = None) -> None:
        shown = json.dumps({"error": document or text}) if self.as_json else f"webhooks: {_plain(text)}"
        self._err.write(shown + "\n")
        for each in (document or {}).get("errors") or ():
            if not self.as_json:
                self._err.write(_plain(f"  {each.get('pointer')}: {each.get('detail')}") + "\n")

    def _print(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def _coloured(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self._in_colour and colour else text


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _fitted(cells: Sequence[str], widths: Sequence[int], room: int) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()[:room]


def _state_colour(cell: str) -> str:
    return "green" if cell in _GOOD else "red" if cell in _BAD else ""


def _plain(text: str) -> str:
    """Without control characters: what a stranger's server answered must not steer this terminal."""
    return "".join(each if each.isprintable() else "�" for each in text)
