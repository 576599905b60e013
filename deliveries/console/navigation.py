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
    control = [("Kill switches", "emergency_home", "switches"), ("Audit log", "history", "audit")]
    catalogue = [
        ("Event types", "category", "subscriptions_eventtype_changelist", "subscriptions.view_eventtype"),
        ("API keys", "key", "subscriptions_apikey_changelist", "subscriptions.view_apikey"),
        ("Users", "person", "auth_user_changelist", "auth.view_user"),
        ("Roles", "shield_person", "auth_group_changelist", "auth.view_group"),
    ]
    seen = request.user.has_perm("deliveries.view_delivery")
    pages = [("Watch", watch), ("Look up", look), ("Control", control)]
    bar = [{"title": title, "items": [_item(here, *each) for each in items]} for title, items in pages if seen]
    settings = [
        _item(here, title, icon, name) for title, icon, name, needs in catalogue if request.user.has_perm(needs)
    ]
    return [*bar, {"title": "Settings", "separator": True, "items": settings}]


def _item(here: str, title: str, icon: str, name: str) -> dict[str, Any]:
    link = reverse(f"admin:{name}")
    is_here = here == link if name == "index" else here.startswith(link)
    return {"title": title, "icon": icon, "link": link, "active": is_here}
