"""Which fields a change changes: an entry names them, and a change of nothing leaves none."""

from collections.abc import Mapping
from typing import Any

from subscriptions.models import EventType


def differing(before: Any, changes: Mapping[str, Any]) -> list[str]:
    """The names of the given fields that are not what they were. Those that cannot be read count as changed."""
    unknown = object()
    return [name for name, value in changes.items() if getattr(before, name, unknown) != value]


def event_type_changes(before: EventType, changes: Mapping[str, Any]) -> list[str]:
    """What of an event type would change, its versions by name."""
    # A name that is given is not changed: the path says which type it is.
    plain = {name: value for name, value in changes.items() if name == "description"}
    found = differing(before, plain)
    for name in ("deprecated", "archived"):
        if name in changes and changes[name] != (getattr(before, f"{name}_at") is not None):
            found.append(name)
    if before.declared_at is None:
        found.append("declared")
    kept = {version.api_version: version for version in before.versions.all()}
    for version in changes.get("versions", []):
        new = {"schema": version.get("schema"), "example": version.get("example")}
        if differing(kept.get(version["api_version"]), new):
            found.append(f"version {version['api_version']}")
    return found
