"""Keys, event types, limits and a consumer's names, in the console: they keep the rules of the API."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from subscriptions import consumers, event_types, keys
from subscriptions.access import portal_visits
from subscriptions.access.scopes import DEFAULT
from subscriptions.models import ApiKey, Consumer, Endpoint, EventType, EventTypeVersion, PortalVisit, Role
from tests.console import logged_in
from tests.forms import form_to
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga", group="Operators")


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_made_with_its_scopes_and_its_end_and_shown_once(operator: Client) -> None:
    form = {"role": "producer", "name": "billing", "scopes": ["events:write", "events:read"], "ends": "30"}
    made = operator.post("/admin/new-key/make/", form)
    first, again = operator.get(made.headers["Location"]), operator.get(made.headers["Location"])
    key = ApiKey.objects.get()
    caller = keys.verify(first.context["shown"]["key"])
    assert caller is not None
    assert (caller.key_id, sorted(caller.scopes)) == (key.id, ["events:read", "events:write"])
    assert key.expires_at is not None
    assert abs(key.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=5)
    assert again.context["shown"] is None
    assert "no-store" in first.headers["Cache-Control"]


def test_a_key_is_not_shown_to_another_session(operator: Client) -> None:
    made = operator.post("/admin/new-key/make/", {"role": "producer", "scopes": "events:write"})
    other = logged_in("oscar", group="Operators")
    assert other.get(made.headers["Location"]).context["shown"] is None
    assert operator.get(made.headers["Location"]).context["shown"] is not None


def test_a_key_with_the_ticks_as_they_stand_has_its_roles_default_scopes(operator: Client, acme: Consumer) -> None:
    scopes = sorted(DEFAULT["consumer"])
    operator.post("/admin/new-key/make/", {"role": "consumer", "consumer": "acme", "scopes": scopes, "ends": ""})
    key = ApiKey.objects.get()
    assert (key.consumer, key.scopes, key.expires_at) == (acme, None, None)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"role": "producer"}, "Tick what the key may do."),
        ({"role": "producer", "scopes": "metrics:read"}, "cannot have the scope metrics:read"),
        ({"role": "producer", "scopes": "made:up"}, "There is no scope"),
        ({"role": "consumer", "scopes": "events:read"}, "There is no consumer"),
        ({"role": "consumer", "consumer": "nobody", "scopes": "events:read"}, "There is no consumer nobody."),
        ({"role": "producer", "scopes": "events:write", "ends": "31"}, "Pick when the key ends."),
        ({"role": "producer", "scopes": "events:write", "owner": "con_x"}, "not an id of ours"),
        ({"role": "producer", "scopes": "events:write", "name": "a" * 256}, "at most 255"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_and_the_form_keeps_what_was_typed(
    operator: Client, form: dict[str, str], said: str
) -> None:
    answer = operator.post("/admin/new-key/make/", {"name": "billing", **form})
    assert answer.status_code == 400
    assert said in answer.context["problem"]
    assert form_to(answer, "/admin/new-key/make/").values["name"] == form.get("name", "billing")
    assert not ApiKey.objects.exists()


def test_a_role_that_does_not_exist_makes_no_key(operator: Client) -> None:
    answer = operator.post("/admin/new-key/make/", {"role": "king", "scopes": "events:write"})
    assert answer.headers["Location"] == "/admin/new-key/"
    assert not ApiKey.objects.exists()


def test_a_revoked_key_opens_nothing_from_that_moment_on(operator: Client, acme: Consumer) -> None:
    key, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    page = f"/admin/keys/{key.public_id}/"
    assert operator.post(f"{page}revoke/", {"why": "leaked"}).headers["Location"] == page
    assert keys.verify(secret) is None
    assert b"It was revoked before." in operator.post(f"{page}revoke/", follow=True).content
    assert b"Revoke" not in operator.get(page).content


def test_the_list_shows_keys_in_use_unless_asked_for_others(operator: Client, acme: Consumer) -> None:
    living, ended = (keys.issue(role=Role.CONSUMER, consumer=acme, name=name)[0] for name in ("living", "ended"))
    producer, _ = keys.issue(role=Role.PRODUCER)
    keys.revoke(key_id=ended.id)

    def shown(query: str) -> list[ApiKey]:
        found: list[ApiKey] = operator.get(f"/admin/keys/?{query}").context["page"].rows
        return found

    assert shown("") == [producer, living]
    assert shown("state=ended") == [ended]
    assert shown("role=consumer&state=all") == [ended, living]
    assert shown("consumer=acme") == [living]
    assert shown("consumer=nobody") == []


# ── Event types ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_type_is_declared_with_a_first_version(operator: Client) -> None:
    form = {"name": "a.b", "description": "Done.", "api_version": "1", "schema": '{"type": "object"}', "example": "{}"}
    answer = operator.post("/admin/new-event-type/declare/", form)
    assert answer.headers["Location"] == "/admin/event-types/a.b/"
    made = EventType.objects.get()
    version = EventTypeVersion.objects.get()
    assert (made.description, made.declared_at is not None) == ("Done.", True)
    assert (version.api_version, version.schema, version.example) == ("1", {"type": "object"}, {})


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"name": "a b"}, "Dot-separated words"),
        ({"name": ""}, "name"),
        ({"name": "known.one"}, "of this name"),
        ({"schema": "{"}, "The schema is no JSON"),
        ({"schema": "[]"}, "A JSON Schema is an object."),
        ({"schema": '{"type": 5}'}, "schema"),
        ({"schema": '{"pattern": "("}'}, "schema"),
        ({"schema": '{"type": "object"}', "example": "5"}, "The example does not match the schema"),
        ({"schema": "{}", "api_version": "a b"}, "Letters, digits"),
    ],
)
def test_a_type_that_the_api_would_refuse_is_refused_and_the_form_keeps_what_was_typed(
    operator: Client, form: dict[str, str], said: str
) -> None:
    event_types.create(name="known.one")
    typed = {"name": "a.b", "api_version": "1", "description": "kept", **form}
    answer = operator.post("/admin/new-event-type/declare/", typed)
    assert (answer.status_code, said in answer.context["problem"]) == (400, True), answer.context["problem"]
    assert form_to(answer, "/admin/new-event-type/declare/").values["description"] == "kept"
    assert [each.name for each in EventType.objects.all()] == ["known.one"]


def test_a_version_is_changed_another_added_and_a_wrong_one_leaves_both(operator: Client) -> None:
    event_types.create(name="a.b", versions=[{"api_version": "1", "schema": {}}])
    path = "/admin/event-types/a.b/version/"
    assert operator.post(path, {"api_version": "1", "schema": '{"type": "object"}'}).status_code == 302
    assert operator.post(path, {"api_version": "2", "example": "[1]"}).status_code == 302
    refused = operator.post(path, {"api_version": "2", "schema": '{"type": "object"}', "example": "[1]"})
    assert refused.status_code == 400
    assert b"The example does not match the schema" in refused.content
    found = EventTypeVersion.objects.order_by("api_version").values_list("api_version", "schema", "example")
    assert list(found) == [("1", {"type": "object"}, None), ("2", None, [1])]


def test_a_type_in_use_is_archived_instead_of_deleted_and_comes_back(operator: Client, acme: Consumer) -> None:
    accept(acme, type="invoice.paid")
    page = "/admin/event-types/invoice.paid/"
    gone = operator.post(f"{page}delete/", follow=True)
    assert b"It is in use, so it was archived instead" in gone.content
    assert event_types.published().count() == 0
    operator.post(f"{page}restore/")
    assert EventType.objects.get().archived_at is None


def test_a_type_called_new_has_a_page_like_any_other(operator: Client) -> None:
    for name in ("new", "declare"):
        event_types.create(name=name)
        assert operator.get(f"/admin/event-types/{name}/").context["type"].name == name


def test_the_list_goes_by_name_a_page_at_a_time(operator: Client) -> None:
    for number in range(105):
        event_types.create(name=f"a.n{number:03}")
    first = operator.get("/admin/event-types/").context
    second = operator.get(f"/admin/event-types/?{first['following']}").context
    assert [len(first["rows"]), [each.name for each in second["rows"]]] == [100, [f"a.n{n}" for n in range(100, 105)]]


# ── Limits and names ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_endpoints_limits_are_changed_and_emptied(operator: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, rate_limit_per_second=5, retry_schedule=[0, 60])
    path = f"/admin/endpoints/{endpoint.public_id}/limits/change/"
    form = {"max_in_flight": "3", "timeout_seconds": "20", "rate_limit_per_second": "", "retry_schedule": "0, 10 20"}
    assert operator.post(path, form).status_code == 302
    endpoint.refresh_from_db()
    assert (endpoint.max_in_flight, endpoint.timeout_seconds, endpoint.rate_limit_per_second) == (3, 20, None)
    assert endpoint.retry_schedule == [0, 10, 20]
    operator.post(path, {**form, "retry_schedule": ""})
    endpoint.refresh_from_db()
    assert endpoint.retry_schedule is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_in_flight": "0"}, {"max_in_flight": ""}, {"max_in_flight": "1e3"}, {"timeout_seconds": "31"},
        {"rate_limit_per_second": "-1"}, {"retry_schedule": "soon"}, {"max_in_flight": "9" * 400},
    ],
)  # fmt: skip
def test_limits_that_the_api_would_refuse_are_refused(operator: Client, acme: Consumer, wrong: dict[str, str]) -> None:
    endpoint = new_endpoint(acme)
    before = Endpoint.objects.values().get()
    form = {"max_in_flight": "3", "timeout_seconds": "20", **wrong}
    answer = operator.post(f"/admin/endpoints/{endpoint.public_id}/limits/change/", form)
    assert (answer.status_code, bool(answer.context["problem"])) == (400, True)
    assert Endpoint.objects.values().get() == before


def test_the_limits_show_what_a_consumer_uses_and_who_has_limits_of_its_own(operator: Client, acme: Consumer) -> None:
    keys.issue(role=Role.CONSUMER, consumer=acme)
    plain, own = new_endpoint(acme), new_endpoint(acme, timeout_seconds=29)
    plain.__class__.objects.filter(id=plain.id).update(max_in_flight=10, timeout_seconds=10, retry_schedule=None)
    context = operator.get("/admin/limits/?consumer=acme").context
    assert [(what, used) for what, used, _ in context["used"]] == [
        ("Endpoints", 2), ("New endpoints within a day", 2), ("Keys in use", 1), ("Changes within a day", 0),
        ("Running replays", 0),
    ]  # fmt: skip
    assert list(context["own"]) == [own]


def test_a_uid_that_the_api_would_refuse_is_refused(operator: Client, acme: Consumer) -> None:
    consumers.create(uid="globex")
    for uid in ("a/b", "con_x", "-a", "globex"):
        path = f"/admin/consumers/{acme.public_id}/edit/save/"
        assert operator.post(path, {"uid": uid, "name": "Acme"}).status_code == 400, uid
    acme.refresh_from_db()
    assert acme.uid == "acme"


def test_a_portal_link_and_its_session_end_with_the_key_that_made_it(acme: Consumer) -> None:
    ends_at = timezone.now() + timedelta(minutes=5)
    key, _ = keys.issue(role=Role.PRODUCER, expires_at=ends_at)
    token, expires_at = portal_visits.new_link(acme, requested_by="x", minutes=15, key_id=key.id)
    opened = portal_visits.open_link(token, minutes=120)
    assert expires_at == ends_at
    assert opened is not None
    assert opened[1] == ends_at == PortalVisit.objects.get().session_ends_at
