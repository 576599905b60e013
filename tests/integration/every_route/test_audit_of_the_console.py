"""S16: every action of the console, and every form of Django's own beside it, leaves exactly one audit entry.

Generated from the console's URL map and the registered forms: a new one fails here until it is described.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory
from django.urls import URLPattern, resolve

from deliveries import lifecycle, replay
from deliveries.actions import holds
from deliveries.browse.filter import Filter
from deliveries.console import deliveries as delivery_pages
from deliveries.console import endpoints as endpoint_pages
from deliveries.console.site import DEED, EXPORT, PAGE
from subscriptions import event_types, keys
from subscriptions.audit import Actor
from subscriptions.models import AuditEntry, Consumer, Endpoint, Role
from tests.audit import Entry, entries
from tests.console import dead_letters, logged_in, on_the_map
from tests.receiver import Receiver
from tests.walk import accept, answered, claim_for, new_endpoint, settle_all

pytestmark = pytest.mark.django_db(transaction=True)

WHY = {"why": "They asked."}
# What each writes: the action, its target and how many.
DEEDS: dict[str, tuple[dict[str, str], str, str, int]] = {
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
    "dead-letters/replay/start/": ({"consumer": "acme", "rate": "5"}, "replay.started", "{new_replay}", 2),
    "replays/{replay}/cancel/": ({}, "replay.cancelled", "{replay}", 2),
}


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga", group="Operators")


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
    AuditEntry.objects.all().delete()
    job = replay.start(Filter(endpoint_id=endpoint.id), consumer=acme, rate_per_second=1, requested_by="somebody")
    return {
        "delivery": delivery.public_id, "event": delivery.event.public_id, "event_uuid": str(delivery.event_id),
        "waiting": slow.deliveries.get().public_id, "endpoint": endpoint.public_id, "paused": paused.public_id,
        "consumer": acme.public_id, "held": held.public_id, "replay": job.public_id,
    }  # fmt: skip


def new_replay(given: dict[str, str]) -> str:
    found = AuditEntry.objects.values_list("target", flat=True).get()
    assert found != given["replay"]
    return found


@pytest.mark.parametrize("path", DEEDS)
def test_s16_an_action_of_the_console_leaves_exactly_one_entry(
    operator: Client, given: dict[str, str], path: str
) -> None:
    form, action, target, count = DEEDS[path]

    answer = operator.post(f"/admin/{path.format(**given)}", {**form, **WHY})

    assert answer.status_code in (200, 302)
    if "{new_replay}" in target:
        given["new_replay"] = new_replay(given)
    assert entries() == [Entry("user olga", action, target.format(**given), count, "They asked.")]


def test_s16_every_action_on_the_map_is_described_here(given: dict[str, str]) -> None:
    described = [(path, resolve(f"/admin/{path.format(**given)}")) for path in DEEDS]
    assert {match.url_name for _, match in described} == on_the_map(DEED)
    deeds = {match.url_name: set[str]() for _, match in described}
    for _, match in described:
        deeds[match.url_name].add(match.kwargs.get("deed", ""))
    assert deeds["delivery-act"] == set(delivery_pages.DEEDS)
    assert deeds["endpoint-act"] == {*endpoint_pages.DEEDS, "rotate"}


# ── Django's own forms ───────────────────────────────────────────────────────────────────────────────────────────────

# What is at these addresses changes nothing that is somebody's: the frame, and the session of who asks.
OF_THE_FRAME = {
    "login": "a session begins", "logout": "a session ends", "password_change_done": "reads", "autocomplete": "reads",
    "jsi18n": "reads", "view_on_site": "redirects", "app_list": "reads", "search": "reads", "None": "not found",
    "account": "reads", "recovery-codes": "reads", "sign-on": "a session begins",
    "sign-on-callback": "a session begins",
    "second-factor": "test_second_factor.py reads its entries",
}  # fmt: skip
USER = {"username": "rita", "password1": "long-enough-1", "password2": "long-enough-1", "usable_password": "true"}
VERSIONS = {f"versions-{name}_FORMS": "0" for name in ("TOTAL", "INITIAL", "MIN_NUM", "MAX_NUM")}


def changed(path: str, **changes: Any) -> Callable[[Client], Any]:
    """Opens the form and sends it back with these fields changed."""

    def send(client: Client) -> Any:
        form = client.get(path).context["adminform"].form
        shown = {name: form[name].value() for name in form.fields}
        values = {name: value for name, value in shown.items() if value not in (None, False)}
        # A time is two inputs.
        for name, at in [(name, value) for name, value in values.items() if isinstance(value, datetime)]:
            values |= {f"{name}_0": f"{at:%Y-%m-%d}", f"{name}_1": f"{at:%H:%M:%S}"}
        return client.post(path, {**values, **VERSIONS, **changes})

    return send


def posted(path: str, **form: Any) -> Callable[[Client], Any]:
    return lambda client: client.post(path, form)


Form = tuple[Callable[[Client], Any], str, str, int]


@pytest.fixture
def forms(acme: Consumer) -> dict[tuple[str, str], Form]:
    """By model and what is done to it, in this order: how, and the action, target and count of its entry."""
    user, group = User.objects.create_user("ulla"), Group.objects.create(name="Night shift")
    key, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    endpoint, auth, ours = new_endpoint(acme), "/admin/auth", "/admin/subscriptions"
    event_types.create(name="order.made")
    return {
        ("user", "add"): (posted(f"{auth}/user/add/", **USER), "user.created", "rita", 1),
        ("user", "change"): (changed(f"{auth}/user/{user.id}/change/", email="u@x.test"), "user.changed", "ulla", 1),
        ("user", "delete"): (posted(f"{auth}/user/{user.id}/delete/", post="yes"), "user.deleted", "ulla", 1),
        ("group", "add"): (posted(f"{auth}/group/add/", name="Day shift"), "group.created", "Day shift", 1),
        ("group", "change"): (changed(f"{auth}/group/{group.id}/change/", name="Nights"), "group.changed", "Nights", 1),
        ("group", "delete"): (
            posted(f"{auth}/group/{group.id}/delete/", post="yes"), "group.deleted", "Nights", 1,
        ),
        ("consumer", "change"): (
            changed(f"{ours}/consumer/{acme.id}/change/", name="New"), "consumer.changed", acme.public_id, 1,
        ),
        ("apikey", "change"): (
            changed(f"{ours}/apikey/{key.id}/change/", name="New"), "key.changed", key.public_id, 1,
        ),
        ("endpoint", "change"): (
            changed(f"{ours}/endpoint/{endpoint.id}/change/", max_in_flight=3), "endpoint.changed",
            endpoint.public_id, 1,
        ),
        ("eventtype", "add"): (
            posted(f"{ours}/eventtype/add/", name="a.b", **VERSIONS), "event_type.created", "a.b", 1,
        ),
        ("eventtype", "change"): (
            changed(f"{ours}/eventtype/order.made/change/", description="x"), "event_type.changed", "order.made", 1,
        ),
        ("eventtype", "delete"): (
            posted(f"{ours}/eventtype/order.made/delete/", post="yes"), "event_type.deleted", "order.made", 1,
        ),
    }  # fmt: skip


@pytest.fixture
def root(db: None) -> Client:
    return logged_in("root", is_superuser=True)


def test_s16_a_form_leaves_exactly_one_entry(root: Client, forms: dict[tuple[str, str], Form]) -> None:
    for name, (send, action, target, count) in forms.items():
        AuditEntry.objects.all().delete()
        assert send(root).status_code == 302, name
        assert entries() == [Entry("user root", action, target, count, "")], name


def test_s16_every_form_that_changes_something_is_described_here(forms: dict[tuple[str, str], Form]) -> None:
    request = RequestFactory().get("/admin/")
    request.user = User.objects.create_superuser("root")
    permitted = {
        (str(model._meta.model_name), verb)
        for model, form in admin.site._registry.items()
        for verb, may in form.get_model_perms(request).items()
        if may and verb != "view"
    }
    assert set(forms) == permitted


def test_s16_every_other_address_of_the_console_is_known() -> None:
    names = {str(url.name) for url in admin.site.get_urls() if isinstance(url, URLPattern)}
    known = on_the_map(DEED) | on_the_map(PAGE) | on_the_map(EXPORT) | set(OF_THE_FRAME) | {"password_change"}
    assert names - known == set()


def test_s16_the_entry_names_the_fields_and_never_their_values(root: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    path = f"/admin/subscriptions/endpoint/{endpoint.id}/change/"
    changed(path, max_in_flight=3, description="hush-hush")(root)
    changed(path)(root)
    entry = AuditEntry.objects.get()
    assert (entry.detail, entry.consumer_id) == ("Description, Max in flight", acme.id)
    assert Endpoint.objects.get().max_in_flight == 3


def test_s16_several_deleted_at_once_are_one_entry_that_counts_them(root: Client) -> None:
    for name in ("a.a", "b.b"):
        event_types.create(name=name)
    form = {"action": "delete_selected", "_selected_action": ["a.a", "b.b"], "post": "yes"}
    assert root.post("/admin/subscriptions/eventtype/", form).status_code == 302
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.count, entry.detail) == ("event_type.deleted", 2, "b.b, a.a")


def test_s16_a_password_changed_is_in_the_log_by_whomever(db: None) -> None:
    client = Client()
    own = User.objects.create_superuser("root", password="the-old-one-1")
    client.force_login(own)
    wrong = {"old_password": "wrong", "new_password1": "the-new-one-1", "new_password2": "the-new-one-1"}
    client.post("/admin/password_change/", wrong)
    assert entries() == []
    client.post("/admin/password_change/", {**wrong, "old_password": "the-old-one-1"})
    other = User.objects.create_user("ulla")
    client.post(f"/admin/auth/user/{other.id}/password/", {k: v for k, v in USER.items() if k != "username"})
    assert [entry[:3] for entry in entries()] == [
        ("user root", "user.password_changed", "root"), ("user root", "user.changed", "ulla"),
    ]  # fmt: skip
