"""The side bar: what somebody on call looks for first comes first."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse


def groups(request: HttpRequest) -> list[dict[str, Any]]:
    here = request.path
    watch = [
        ("Overview", "monitoring", "index"),
        ("Dead letters", "mail_off", "dead-letters"),
        ("Replays", "replay", "replays"),
    ]
    look = [
        ("Endpoints", "dns", "endpoints"),
        ("Consumers", "group", "consumers"),
        ("Events", "bolt", "events"),
        ("Deliveries", "outbox", "deliveries"),
    ]
    control = [
        ("Kill switches", "emergency_home", "switches"),
        ("Limits", "speed", "limits"),
        ("Audit log", "history", "audit"),
    ]
    platform = [
        ("Event types", "category", "event-types"),
        ("Signatures", "signature", "signatures"),
        ("API keys", "key", "keys"),
    ]
    if request.user.has_perm("auth.change_user"):
        platform.append(("Users and roles", "person", "users"))
    seen = request.user.has_perm("deliveries.view_delivery")
    pages = [("Watch", watch), ("Look up", look), ("Control", control), ("Settings", platform)]
    return [{"title": title, "items": [_item(here, *each) for each in items]} for title, items in pages if seen]


def _item(here: str, title: str, icon: str, name: str) -> dict[str, Any]:
    link = reverse(f"admin:{name}")
    is_here = here == link if name == "index" else here.startswith(link)
    return {"title": title, "icon": icon, "link": link, "active": is_here}
