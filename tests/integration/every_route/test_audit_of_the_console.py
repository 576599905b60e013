"""S16: every action of the console leaves exactly one audit entry.

Generated from the console's URL map: a new one fails here until it is described.
"""

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, resolve

from deliveries import replay
from deliveries.actions import holds
from deliveries.browse.filter import Filter
from deliveries.console import deliveries as delivery_pages
from deliveries.console import endpoints as endpoint_pages
from deliveries.console import event_types as event_type_pages
from deliveries.console import signatures as signature_pages
from deliveries.console import users as user_pages
from deliveries.console.accounts import second_factor
from deliveries.console.site import ACTION, EXPORT, PAGE
from deliveries.health import lifecycle
from subscriptions import event_types, keys
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry, Consumer, Role
from subscriptions.signing import schemes
from tests.audit import Entry, entries
from tests.console import dead_letters, logged_in, on_the_map
from tests.receiver import Receiver
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

pytestmark = pytest.mark.django_db(transaction=True)

WHY = {"why": "They asked."}
SIGNATURE = {
    "signed": "{timestamp}.{body}", "signature_header": "X-Sign", "timestamp_header": "X-Time", "separator": ",",
    "hash": "sha512", "encoding": "hex", "key": "text",
}  # fmt: skip
# What each writes: the action, its target and how many.
ACTIONS: dict[str, tuple[dict[str, str], str, str, int]] = {
    "deliveries/{delivery}/replay/": ({}, "delivery.replayed", "{delivery}", 1),
    "deliveries/{waiting}/retry-now/": ({}, "delivery.retried_now", "{waiting}", 1),
    "deliveries/{waiting}/give-up/": ({}, "delivery.given_up", "{waiting}", 1),
    "events/{event_uuid}/resend/": ({}, "event.resent", "{event}", 1),
    "endpoints/{endpoint}/pause/": ({}, "endpoint.paused", "{endpoint}", 1),
    "endpoints/{paused}/resume/": ({}, "endpoint.resumed", "{paused}", 1),
    "endpoints/{endpoint}/disable/": ({}, "endpoint.disabled", "{endpoint}", 1),
    "endpoints/{endpoint}/probe/": ({}, "endpoint.probed", "{endpoint}", 1),
    "endpoints/{endpoint}/test/": ({}, "endpoint.tested", "{endpoint}", 1),
    "endpoints/{endpoint}/check-up/": ({}, "endpoint.checked_up", "{endpoint}", 1),
    "endpoints/{endpoint}/rotate/": ({"overlap_seconds": "0"}, "endpoint.secret_rotated", "{endpoint}", 1),
    "consumers/{consumer}/portal-link/": ({}, "portal.link_created", "{consumer}", 1),
    "switches/on/": ({"scope": "everything"}, "hold.put_on", "", 1),
    "switches/off/": ({"consumer": "held"}, "hold.taken_off", "{held}", 1),
    "dead-letters/replay/start/": ({"consumer": "acme", "rate": "5"}, "replay.started", "{new}", 2),
    "replays/{replay}/cancel/": ({}, "replay.cancelled", "{replay}", 2),
    "endpoints/{endpoint}/limits/change/": (
        {"max_in_flight": "3", "timeout_seconds": "10"},
        "endpoint.changed",
        "{endpoint}",
        1,
    ),
    "consumers/{consumer}/edit/save/": ({"uid": "acme", "name": "New"}, "consumer.changed", "{consumer}", 1),
    "new-key/make/": ({"role": "producer", "scopes": "events:write"}, "key.issued", "{new}", 1),
    "keys/{key}/revoke/": ({}, "key.revoked", "{key}", 1),
    "new-event-type/declare/": ({"name": "a.b"}, "event_type.created", "a.b", 1),
    "event-types/{type}/describe/": ({"description": "x"}, "event_type.changed", "{type}", 1),
    "event-types/{type}/version/": ({"api_version": "1", "example": "{}"}, "event_type.changed", "{type}", 1),
    "event-types/order.made/declare/": ({}, "event_type.changed", "order.made", 1),
    "event-types/{type}/deprecate/": ({}, "event_type.changed", "{type}", 1),
    "event-types/{old}/undeprecate/": ({}, "event_type.changed", "{old}", 1),
    "event-types/{type}/archive/": ({}, "event_type.changed", "{type}", 1),
    "event-types/{old}/restore/": ({}, "event_type.changed", "{old}", 1),
    "event-types/{type}/delete/": ({}, "event_type.deleted", "{type}", 1),
    "new-signature/make/": (SIGNATURE | {"name": "new-way"}, "signature_profile.created", "new-way", 1),
    "signatures/own-way/change/": (SIGNATURE, "signature_profile.changed", "own-way", 1),
    "signatures/own-way/delete/": ({}, "signature_profile.deleted", "own-way", 1),
    "new-user/add/": ({"name": "rita", "role": "Read-only"}, "user.created", "rita", 1),
    "users/{user}/role/": ({"role": "Operators"}, "user.changed", "ulla", 1),
    "users/{user}/deactivate/": ({}, "user.deactivated", "ulla", 1),
    "users/{out}/activate/": ({}, "user.activated", "otto", 1),
    "users/{user}/reset-password/": ({}, "user.password_reset", "ulla", 1),
    "users/{user}/reset-second-factor/": ({}, "user.second_factor_removed", "ulla", 1),
}


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga", group="Operators", is_superuser=True)


@pytest.fixture
def given(acme: Consumer, receiver: Receiver) -> dict[str, str]:
    endpoint, [delivery, *_] = dead_letters(acme, 2, url=receiver.url)
    slow = new_endpoint(acme, retry_schedule=[0, 3600], event_types=["order.made"])
    accept(acme, type="order.made")
    settle_all(*(answered(each, 500) for each in claim_for(slow).deliveries))
    paused = new_endpoint(acme)
    lifecycle.pause(paused, reason="for the test")
    held = Consumer.objects.create(uid="held")
    holds.put_on(held, actor=Actor.of_user("somebody"), why="for the test")
    schemes.create(name="own-way", signed="{body}")
    event_types.create(name="never.used")
    old = event_types.create(name="old.one")
    event_types.update(old, {"deprecated": True, "archived": True})
    ulla, otto = User.objects.create_user("ulla"), User.objects.create_user("otto", is_active=False)
    second_factor.begin(ulla)
    AuditEntry.objects.all().delete()
    job = replay.start(Filter(endpoint_id=endpoint.id), consumer=acme, rate_per_second=1, requested_by="somebody")
    return {
        "delivery": delivery.public_id, "event": delivery.event.public_id, "event_uuid": str(delivery.event_id),
        "waiting": slow.deliveries.get().public_id, "endpoint": endpoint.public_id, "paused": paused.public_id,
        "consumer": acme.public_id, "held": held.public_id, "replay": job.public_id,
        "key": keys.issue(role=Role.CONSUMER, consumer=acme)[0].public_id, "type": "never.used", "old": "old.one",
        "user": str(ulla.pk), "out": str(otto.pk),
    }  # fmt: skip


def what_is_new(given: dict[str, str]) -> str:
    found = AuditEntry.objects.values_list("target", flat=True).get()
    assert found not in given.values()
    return found


@pytest.mark.parametrize("path", ACTIONS)
def test_s16_an_action_of_the_console_leaves_exactly_one_entry(
    operator: Client, given: dict[str, str], path: str
) -> None:
    form, action, target, count = ACTIONS[path]

    answer = operator.post(f"/admin/{path.format(**given)}", {**form, **WHY})

    assert answer.status_code in (200, 302)
    if target == "{new}":
        given["new"] = what_is_new(given)
    assert entries() == [Entry("user olga", action, target.format(**given), count, "They asked.")]


def test_s16_every_action_on_the_map_is_described_here(given: dict[str, str]) -> None:
    described = [(path, resolve(f"/admin/{path.format(**given)}")) for path in ACTIONS]
    assert {match.url_name for _, match in described} == on_the_map(ACTION)
    actions = {match.url_name: set[str]() for _, match in described}
    for _, match in described:
        actions[match.url_name].add(match.kwargs.get("action", ""))
    assert actions["delivery-act"] == set(delivery_pages.ACTIONS)
    assert actions["endpoint-act"] == {*endpoint_pages.ACTIONS, "rotate"}
    assert actions["event-type-act"] == event_type_pages.ACTIONS
    assert actions["signature-act"] == signature_pages.ACTIONS
    assert actions["user-act"] == user_pages.ALL_ACTIONS


# What is at these addresses changes nothing that is somebody's: the frame, and the session of who asks.
OF_THE_FRAME = {
    "login": "a session begins", "logout": "a session ends", "password_change_done": "reads", "autocomplete": "reads",
    "jsi18n": "reads", "view_on_site": "redirects", "app_list": "reads", "search": "reads", "None": "not found",
    "account": "reads", "recovery-codes": "reads", "sign-on": "a session begins",
    "sign-on-callback": "a session begins",
    "second-factor": "test_second_factor.py reads its entries",
}  # fmt: skip


def test_s16_no_form_of_djangos_own_is_left() -> None:
    assert dict(admin.site._registry) == {}


def test_s16_every_other_address_of_the_console_is_known() -> None:
    names = {str(url.name) for url in admin.site.get_urls() if isinstance(url, URLPattern)}
    known = on_the_map(ACTION) | on_the_map(PAGE) | on_the_map(EXPORT) | set(OF_THE_FRAME) | {"password_change"}
    assert names - known == set()


def test_s16_the_entry_names_the_fields_and_never_their_values(operator: Client, acme: Consumer) -> None:
    path = f"/admin/consumers/{acme.public_id}/edit/save/"
    operator.post(path, {"uid": "acme", "name": "hush-hush", "contact_email": "a@acme.test"})
    operator.post(path, {"uid": "acme", "name": "hush-hush", "contact_email": "a@acme.test"})
    entry = AuditEntry.objects.get()
    assert (entry.detail, entry.consumer_id) == ("name, contact_email", acme.id)


def test_s16_a_password_changed_is_in_the_log(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="the-old-one-1"))
    wrong = {"old_password": "wrong", "new_password1": "the-new-one-1", "new_password2": "the-new-one-1"}
    client.post("/admin/password_change/", wrong)
    assert entries() == []
    client.post("/admin/password_change/", {**wrong, "old_password": "the-old-one-1"})
    assert [entry[:3] for entry in entries()] == [("user root", "user.password_changed", "root")]
