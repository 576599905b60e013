"""`manage.py demo`: run at every `make up`, so it must find what is there and mend what is not."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone

from subscriptions import consumers, endpoints, keys
from subscriptions.models import ApiKey, Consumer, Endpoint, EndpointStatus, Lane, Role

pytestmark = pytest.mark.django_db

URL = "http://127.0.0.1:8001/webhooks"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "demo.json"


def run(state: Path, url: str = URL) -> dict[str, Any]:
    call_command("demo", "--receiver-url", url, "--state", str(state))
    found: dict[str, Any] = json.loads(state.read_text())
    return found


def test_the_first_run_makes_a_consumer_an_endpoint_a_key_and_a_login(state: Path) -> None:
    made = run(state)
    acme = consumers.find("acme")
    endpoint = endpoints.find(made["endpoint"])
    caller = keys.verify(made["producer_key"])
    assert acme is not None
    assert endpoint is not None
    assert caller is not None
    assert (endpoint.consumer, endpoint.url, endpoint.event_types) == (acme, URL, ["*"])
    assert caller.role == Role.PRODUCER
    assert User.objects.get(username="admin").check_password(made["admin_password"])
    assert state.stat().st_mode & 0o777 == 0o600


def test_the_second_run_makes_nothing(state: Path) -> None:
    first = run(state)
    assert run(state) == first
    counts = (Consumer.objects.count(), Endpoint.objects.count(), ApiKey.objects.count(), User.objects.count())
    assert counts == (1, 1, 1, 1)


def test_the_endpoint_follows_the_receiver_to_another_port(state: Path) -> None:
    first = run(state)
    moved = "http://127.0.0.1:8101/webhooks"
    assert run(state, moved)["endpoint"] == first["endpoint"]
    assert Endpoint.objects.get().url == moved


def test_after_a_rotation_the_receiver_gets_both_secrets_the_new_one_first(state: Path) -> None:
    first = run(state)
    endpoint = Endpoint.objects.get()
    rotated = endpoints.rotate_secret(endpoint, overlap_seconds=3600)
    assert run(state)["secrets"] == [rotated.secret, *first["secrets"]]


def test_a_paused_or_held_back_endpoint_is_ready_again(state: Path) -> None:
    run(state)
    endpoints.pause(Endpoint.objects.get())
    run(state)
    assert Endpoint.objects.get().status == EndpointStatus.ACTIVE

    later = timezone.now() + timedelta(hours=1)
    Lane.objects.update(opens_at=later, failure_count=3, failing_since=timezone.now())
    run(state)
    lane = Lane.objects.get()
    assert lane.opens_at <= timezone.now()
    assert lane.failure_count == 0


def test_a_deleted_endpoint_and_a_revoked_key_are_made_anew(state: Path) -> None:
    first = run(state)
    endpoints.delete(Endpoint.objects.get())
    ApiKey.objects.update(revoked_at=timezone.now())
    second = run(state)
    assert second["endpoint"] != first["endpoint"]
    assert second["producer_key"] != first["producer_key"]
    assert keys.verify(second["producer_key"])


def test_an_endpoint_sealed_under_a_lost_key_is_replaced(state: Path, settings: Any) -> None:
    first = run(state)
    settings.ENCRYPTION_KEYS = ["k2:" + "A" * 43 + "="]
    assert run(state)["endpoint"] != first["endpoint"]


def test_a_changed_password_is_left_alone_and_no_longer_shown(state: Path) -> None:
    run(state)
    admin = User.objects.get()
    admin.set_password("chosen by a person")
    admin.save()
    assert run(state)["admin_password"] == ""
    assert run(state)["admin_password"] == ""
    assert User.objects.get().check_password("chosen by a person")


def test_a_lost_state_file_keeps_the_endpoint_and_the_login(state: Path) -> None:
    first = run(state)
    state.unlink()
    second = run(state)
    assert second["endpoint"] == first["endpoint"]
    assert second["secrets"] == first["secrets"]
    assert second["admin_password"] == ""
