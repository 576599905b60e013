"""The way from an empty portal to the first event: three steps, each with its state. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from subscriptions.models import Endpoint

# Who has received events for so long needs no introduction, check-up or not.
_SETTLED = timedelta(days=7)
# What a receiver that verifies does: it answers 2xx to a genuine request, and refuses a forged one.
VERIFYING = ("accepts_genuine", "rejects_tampering")


@dataclass(frozen=True, slots=True)
class FirstStep:
    title: str
    text: str
    # done, now, later
    state: str
    address: str = ""
    label: str = ""


def steps(
    endpoints: Sequence[Endpoint], reports: Sequence[dict[str, Any]], *, has_received: bool, now: datetime
) -> list[FirstStep]:
    """Empty once there is nothing left to show."""
    verified = any(is_verified(report) for report in reports)
    settled = has_received and any(now - endpoint.created_at > _SETTLED for endpoint in endpoints)
    if settled or (endpoints and verified and has_received):
        return []
    page = reverse("portal:endpoint", args=[endpoints[0].public_id]) if endpoints else ""
    done = [bool(endpoints), verified, has_received]
    made = [
        (
            _("Add an endpoint"),
            _("Say where your receiver listens and which events it wants."),
            reverse("portal:endpoint-new"),
            _("New endpoint"),
        ),
        (
            _("Verify a request"),
            _(
                "Put the secret into your receiver. The check-up sends it a genuine request and a forged one, and says"
                " whether it tells them apart."
            ),
            page and f"{page}#check-up",
            _("Check-up"),
        ),
        (
            _("Receive the first event"),
            _(
                "It arrives by itself when something happens from now on; events from before are not"
                " sent by themselves,"
                " and stay in your feed."
            ),
            page and reverse("portal:test", args=[endpoints[0].public_id]),
            _("Send a test event"),
        ),
    ]
    found = []
    for index, (title, text, address, label) in enumerate(made):
        state = "done" if done[index] else "now" if all(done[:index]) else "later"
        found.append(FirstStep(title, text, state, address if state != "done" else "", label))
    return found


def is_verified(report: dict[str, Any] | None) -> bool:
    verdicts = {finding["name"]: finding["verdict"] for finding in (report or {}).get("findings", [])}
    return all(verdicts.get(name) == "pass" for name in VERIFYING)
