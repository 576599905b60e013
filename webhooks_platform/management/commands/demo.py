"""`manage.py demo`: what `make up` shows. A consumer `acme` with an endpoint, a producer's key and an admin login.

Run again, it finds what is still there and makes only what is missing. The values that are shown once (the key, the
password) and those the receiver needs (the endpoint's secrets) are left in a file that only its owner can read.
"""

import json
import os
import secrets
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from deliveries.actions import NothingDone
from deliveries.actions import endpoints as endpoint_actions
from subscriptions import consumers, keys
from subscriptions.actions import consumers as consumer_actions
from subscriptions.actions import endpoints as new_endpoint
from subscriptions.actions import keys as key_actions
from subscriptions.audit import Actor, record
from subscriptions.models import Consumer, Endpoint, EndpointStatus, Role
from subscriptions.secrets.endpoint_secrets import Column, unseal
from subscriptions.secrets.vault import VaultError, vault
from subscriptions.signing.ready_made import TIMESTAMPED

DESCRIPTION = "The receiver of `make up` (examples/python/demo_receiver.py)"


class Command(BaseCommand):
    help = "Make or refresh the demo of `make up`: consumer acme, its endpoint, a producer key, an admin login."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--receiver-url", required=True, help="where the demo's receiver listens")
        parser.add_argument("--migrate", action="store_true", help="bring the tables up to date first")
        parser.add_argument("--state", required=True, type=Path, help="the file that keeps the demo's secrets")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["migrate"]:
            call_command("migrate", interactive=False)
        state = _read(options["state"])
        consumer = consumers.find("acme") or consumer_actions.create(uid="acme", name="Acme (demo)", **_by())
        endpoint, signing_secrets = _endpoint(consumer, url=options["receiver_url"])
        state |= {
            "producer_key": _producer_key(state.get("producer_key", "")),
            "endpoint": endpoint.public_id,
            "secrets": signing_secrets,
            **_admin(state),
        }
        _write(options["state"], state)


def _endpoint(consumer: Consumer, *, url: str) -> tuple[Endpoint, list[str]]:
    """The demo's endpoint, listening where the receiver does today, with the secrets that sign for it now."""
    found = Endpoint.objects.filter(consumer=consumer, description=DESCRIPTION, deleted_at__isnull=True)
    for endpoint in found.order_by("-created_at"):
        try:
            signing_secrets = _secrets(endpoint)
        except VaultError:  # sealed under a key that is gone with an old .env
            endpoint_actions.delete(endpoint, **_by())
            continue
        return _ready(endpoint, url=url), signing_secrets
    endpoint, secret = new_endpoint.create(
        consumer=consumer,
        url=url,
        event_types=["*"],
        description=DESCRIPTION,
        # The receiver knows this one scheme, whatever the deployment's default.
        signature_scheme=TIMESTAMPED,
        **_by(),
    )
    return endpoint, [secret]


def _secrets(endpoint: Endpoint) -> list[str]:
    columns: list[Column] = ["secret_encrypted"]
    expires_at = endpoint.previous_secret_expires_at
    if endpoint.previous_secret_encrypted and expires_at and expires_at > timezone.now():
        columns.append("previous_secret_encrypted")
    return [
        unseal(vault(), bytes(getattr(endpoint, column)), endpoint_id=endpoint.id, column=column) for column in columns
    ]


def _ready(endpoint: Endpoint, *, url: str) -> Endpoint:
    if endpoint.url != url:
        endpoint_actions.update(endpoint, {"url": url}, **_by())
    # Its receiver starts afresh with us: what it did to deserve a pause or a long wait is over.
    if endpoint.status == EndpointStatus.ACTIVE and endpoint.lane.opens_at > timezone.now():
        endpoint_actions.pause(endpoint, **_by())
    with suppress(NothingDone):
        endpoint_actions.resume(endpoint, **_by())
    return endpoint


def _producer_key(kept: str) -> str:
    caller = keys.verify(kept)
    if caller is not None and caller.role == Role.PRODUCER:
        return kept
    _, secret = key_actions.issue(role=Role.PRODUCER, consumer=None, name="demo", **_by())
    return secret


def _admin(state: dict[str, Any]) -> dict[str, str]:
    """The login `admin`. Its password is empty when somebody has changed it, which is then theirs to know."""
    user = User.objects.filter(username="admin").first()
    password = state.get("admin_password", "")
    if user is None:
        password = secrets.token_urlsafe(12)
        with transaction.atomic():
            user = User.objects.create_superuser("admin", password=password)
            record(action="user.created", target="admin", **_by())
    # The hash tells a changed password at once; checking the password itself takes half a second, by design.
    elif user.password != state.get("admin_hash"):
        password = ""
    return {"admin_name": user.username, "admin_password": password, "admin_hash": user.password}


def _by() -> dict[str, Any]:
    """What the audit log says of it."""
    return {"actor": Actor.of_command("demo"), "why": "the demo of make up"}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, state: dict[str, Any]) -> None:
    # Beside its place, then moved there: a reader never finds half a file, and its mode is right from the start.
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(state, file, indent=2)
    draft.replace(path)
