"""The console's own forms keep the rules of the API."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from subscriptions import consumers, event_types, keys, portal
from subscriptions.idempotency import fingerprint
from subscriptions.models import Consumer, EventTypeVersion, IdempotencyRecord, PortalVisit, Role
from tests.console import logged_in

pytestmark = pytest.mark.django_db(transaction=True)

VERSIONS = {"versions-TOTAL_FORMS": "1", "versions-INITIAL_FORMS": "0", "versions-MIN_NUM_FORMS": "0"}


@pytest.fixture
def root(db: None) -> Client:
    return logged_in("root", is_superuser=True)


@pytest.mark.parametrize("schema", ['{"type": 5}', "[]", '{"pattern": "("}'])
def test_a_schema_that_cannot_be_checked_is_refused(root: Client, schema: str) -> None:
    event_types.create(name="a.b")
    form = {"name": "a.b", **VERSIONS, "versions-0-api_version": "1", "versions-0-schema": schema}
    answer = root.post("/admin/subscriptions/eventtype/a.b/change/", form)
    assert answer.status_code == 200
    assert not EventTypeVersion.objects.exists()


def test_a_schema_that_holds_is_stored(root: Client) -> None:
    event_types.create(name="a.b")
    form = {"name": "a.b", **VERSIONS, "versions-0-api_version": "1", "versions-0-schema": '{"type": "object"}'}
    assert root.post("/admin/subscriptions/eventtype/a.b/change/", form).status_code == 302
    assert EventTypeVersion.objects.get().schema == {"type": "object"}


def test_a_uid_that_the_api_would_refuse_is_refused(root: Client, acme: Consumer) -> None:
    other = consumers.create(uid="globex")
    for uid in ("a/b", "con_x", other.public_id, "-a"):
        answer = root.post(f"/admin/subscriptions/consumer/{acme.id}/change/", {"uid": uid, "name": "Acme"})
        assert answer.status_code == 200, uid
    acme.refresh_from_db()
    assert acme.uid == "acme"


def test_what_is_kept_of_a_form_does_not_tell_a_password(root: Client) -> None:
    path = "/admin/auth/user/add/"
    given = {"username": "rita", "password1": "Sommer-2026", "password2": "Sommer-2026", "usable_password": "true"}
    form_id = re.findall(r'name="form_id" value="([^"]+)"', root.get(path).content.decode())[-1]
    root.post(path, {**given, "form_id": form_id})
    plain = fingerprint({name: [value] for name, value in given.items()})
    assert [bytes(row.fingerprint) == plain for row in IdempotencyRecord.objects.all()] == [False]


def test_a_portal_link_and_its_session_end_with_the_key_that_made_it(acme: Consumer) -> None:
    ends_at = timezone.now() + timedelta(minutes=5)
    key, _ = keys.issue(role=Role.PRODUCER, expires_at=ends_at)
    token, expires_at = portal.new_link(acme, requested_by="x", minutes=15, key_id=key.id)
    opened = portal.open_link(token, minutes=120)
    assert expires_at == ends_at
    assert opened is not None
    assert opened[1] == ends_at == PortalVisit.objects.get().session_ends_at
