"""The forms on a page, filled in as the browser has them before anybody types."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


@dataclass
class Form:
    action: str
    method: str
    # What a browser would send: every field that has a name, with its value.
    values: dict[str, str] = field(default_factory=dict)
    # Every name there is, also of boxes that are not ticked.
    names: list[str] = field(default_factory=list)


def forms_on(page: Any) -> list[Form]:
    reader = _Reader()
    reader.feed(page.content.decode())
    return reader.forms


def form_to(page: Any, action: str) -> Form:
    """The form that goes to this address. One without an address goes to its own page."""
    found = [form for form in forms_on(page) if form.method == "post" and form.action == action]
    assert found, f"no form goes to {action}: {[form.action for form in forms_on(page)]}"
    return found[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._select = ""
        self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, value = given.get("name") or "", given.get("value") or ""
        if tag == "form":
            self._form = Form(given.get("action") or "", (given.get("method") or "get").lower())
            self.forms.append(self._form)
        if self._form is None:
            return
        if name and tag in ("input", "select", "textarea"):
            self._form.names.append(name)
        if tag == "input" and name and (given.get("type") not in ("checkbox", "radio", "submit") or "checked" in given):
            # An empty text beside a ticked box of the same name adds nothing to it.
            self._form.values[name] = value or self._form.values.get(name, "")
        if tag == "select":
            self._select = name
        if tag == "option" and self._select and ("selected" in given or self._select not in self._form.values):
            self._form.values[self._select] = value
        if tag == "textarea":
            self._textarea = name
            self._form.values[name] = ""

    def handle_data(self, data: str) -> None:
        if self._form is not None and self._textarea:
            self._form.values[self._textarea] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        if tag == "select":
            self._select = ""
        if tag == "textarea":
            self._textarea = ""
