"""What is declared is published, and nothing else: in the API, the catalogue's pages and the picker."""

from typing import Any

import pytest
from django.test import Client

from deliveries.portal import forms
from subscriptions import event_types
from subscriptions.models import AuditEntry, Consumer, Endpoint, EventType
from tests.conftest import Api
from tests.forms import form_to
from tests.portal import inside
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

FORM = {
    "url": "https://receiver.test/hook", "signature_scheme": "standard", "max_in_flight": "7", "timeout_seconds": "20",
}  # fmt: skip
SCHEMA = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer", "minimum": 1}}}


@pytest.fixture
def visitor(acme: Consumer) -> Client:
    return inside(acme)


def names(api: Api, **query: str) -> list[str]:
    return [row["name"] for row in api.get("event-types/", **query).json()["results"]]


def test_an_emit_of_an_unknown_type_shows_it_to_no_customer(
    acme: Consumer, acme_api: Api, producer: Api, visitor: Client
) -> None:
    accept(acme, type="secret.launch")

    assert (names(acme_api), names(acme_api, undeclared="true"), names(producer)) == ([], [], [])
    assert names(producer, undeclared="true") == ["secret.launch"]
    assert acme_api.get("event-types/secret.launch/").status_code == 404
    assert producer.get("event-types/secret.launch/").json()["declared"] is False
    for page in ("/portal/events/", "/portal/endpoints/new/"):
        assert b"secret.launch" not in visitor.get(page).content
    assert visitor.get("/portal/events/secret.launch/").status_code == 404


def test_a_type_that_was_emitted_before_is_declared_like_a_new_one(
    acme: Consumer, acme_api: Api, producer: Api
) -> None:
    accept(acme, type="invoice.paid")
    created = producer.post("event-types/", {"name": "invoice.paid", "description": "Paid in full."})
    again = producer.post("event-types/", {"name": "invoice.paid"})

    assert (created.status_code, created.json()["declared"], again.status_code) == (201, True, 409)
    assert names(acme_api) == ["invoice.paid"]
    assert EventType.objects.get().used_at is not None


def test_who_changes_the_entry_of_an_emitted_type_declares_it(acme: Consumer, acme_api: Api, producer: Api) -> None:
    accept(acme, type="invoice.paid")
    producer.patch("event-types/invoice.paid/", {"description": "Paid in full."})
    assert names(acme_api) == ["invoice.paid"]
    [entry] = AuditEntry.objects.filter(action="event_type.changed")
    assert entry.detail == "description, declared"


def test_a_deprecated_type_says_so_and_is_still_published(acme_api: Api, producer: Api, visitor: Client) -> None:
    producer.post("event-types/", {"name": "invoice.paid"})
    assert producer.patch("event-types/invoice.paid/", {"deprecated": True}).json()["deprecated"] is True
    assert names(acme_api) == ["invoice.paid"]
    assert b"Deprecated" in visitor.get("/portal/events/invoice.paid/").content
    assert producer.patch("event-types/invoice.paid/", {"deprecated": False}).json()["deprecated"] is False


def test_a_types_page_has_its_description_fields_example_and_versions(visitor: Client) -> None:
    event_types.create(
        name="invoice.paid",
        description="Paid in full. <b>Really</b>",
        versions=[
            {"api_version": "2026-01-01", "schema": SCHEMA, "example": {"amount": 1200}},
            {"api_version": "2025-01-01"},
        ],
    )
    answer = visitor.get("/portal/events/invoice.paid/")
    page = answer.content.decode()
    assert [version.name for version in answer.context["versions"]] == ["2026-01-01", "2025-01-01"]
    assert ("Paid in full. &lt;b&gt;Really" in page, "&quot;amount&quot;: 1200" in page, "≥ 1" in page) == (True,) * 3


def test_types_are_grouped_by_family(visitor: Client) -> None:
    for name in ("order.made", "invoice.paid", "invoice.sent", "ping"):
        event_types.create(name=name)
    families = visitor.get("/portal/events/").context["families"]
    assert [(family.name, len(family.types)) for family in families] == [("invoice", 2), ("order", 1), ("ping", 1)]


@pytest.mark.parametrize(
    ("chosen", "stored"),
    [
        (["*"], ["*"]),
        (["invoice.paid", "order.made"], ["invoice.paid", "order.made"]),
        (["invoice.*"], ["invoice.*"]),
    ],
)
def test_the_form_takes_published_types_families_and_everything(
    visitor: Client, chosen: list[str], stored: list[str]
) -> None:
    for name in ("order.made", "invoice.paid"):
        event_types.create(name=name)
    visitor.post("/portal/endpoints/new/", {**FORM, "event_types": chosen})
    assert Endpoint.objects.get().event_types == stored


@pytest.mark.parametrize("unknown", ["invoice.payed", "orders.*", "secret.launch"])
def test_a_name_that_is_not_published_is_refused(visitor: Client, acme: Consumer, unknown: str) -> None:
    event_types.create(name="invoice.paid")
    accept(acme, type="secret.launch")
    answer = visitor.post("/portal/endpoints/new/", {**FORM, "event_types": ["invoice.paid", unknown]})
    assert answer.status_code == 400
    assert answer.context["form"].errors["event_types"].startswith(f"There is no event type {unknown}.")
    assert Endpoint.objects.count() == 0


def test_what_an_endpoint_asks_for_already_may_stay(visitor: Client, acme: Consumer) -> None:
    event_types.create(name="invoice.paid")
    endpoint = new_endpoint(acme, event_types=["old.name", "invoice.paid"])
    path = f"/portal/endpoints/{endpoint.public_id}/edit/"
    assert visitor.get(path).context["others"] == "old.name"
    visitor.post(path, {**FORM, "event_types": ["invoice.paid", "old.name"], "description": "Changed"})
    endpoint.refresh_from_db()
    assert (sorted(endpoint.event_types), endpoint.description) == (["invoice.paid", "old.name"], "Changed")


def test_advanced_fields_are_kept_changed_and_their_values_never_shown(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, headers={"X-Token": "hush", "X-Other": "also"}, event_types=["*"])
    path = f"/portal/endpoints/{endpoint.public_id}/edit/"
    page = visitor.get(path).content.decode()
    assert ("X-Token: ••••••••" in page, "hush" in page) == (True, False)
    advanced = {"advanced": "yes", "payload_mode": "thin", "ordered": "yes", "retry_schedule": "0, 60"}
    form = {**FORM, "event_types": "*", **advanced, "headers": "X-Token: ••••••••\nX-New: fresh: value"}

    visitor.post(path, form)

    endpoint.refresh_from_db()
    assert (endpoint.payload_mode, endpoint.ordered, endpoint.retry_schedule) == ("thin", True, [0, 60])
    assert forms._old_headers(endpoint) == {"X-Token": "hush", "X-New": "fresh: value"}
    assert AuditEntry.objects.filter(action="endpoint.changed").count() == 1
    visitor.post(path, form | {"headers": "X-Token: ••••••••\nX-New: ••••••••"})
    assert AuditEntry.objects.filter(action="endpoint.changed").count() == 1


def test_a_url_is_judged_while_it_is_typed_by_its_shape_alone(visitor: Client, settings: Any) -> None:
    settings.DELIVERY_ALLOWED_NETWORKS = []
    verdicts = {
        url: visitor.get("/portal/endpoints/check-url/", {"url": url}).json()["ok"]
        for url in ("https://example.com/hook", "http://example.com/", "https://10.0.0.1/", "https://localhost/", "no")
    }
    assert verdicts == {
        "https://example.com/hook": True, "http://example.com/": False, "https://10.0.0.1/": False,
        "https://localhost/": False, "no": False,
    }  # fmt: skip


def test_questions_about_urls_are_limited(visitor: Client) -> None:
    statuses = [visitor.get("/portal/endpoints/check-url/", {"url": "https://a.test/"}).status_code for _ in range(60)]
    assert statuses[:20] == [200] * 20
    assert 429 in statuses


def test_without_a_catalogue_patterns_are_typed(visitor: Client, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, event_types=["invoice.*", "order.made"])
    blank = form_to(visitor.get("/portal/endpoints/new/"), "").values
    filled = form_to(visitor.get(f"/portal/endpoints/{endpoint.public_id}/edit/"), "").values
    assert (blank["event_types"], filled["event_types"]) == ("*", "invoice.*\norder.made")
    visitor.post("/portal/endpoints/new/", {**blank, "url": "https://receiver.test/new"})
    assert Endpoint.objects.get(url="https://receiver.test/new").event_types == ["*"]


ARRAYS_OF_ITSELF = {
    "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
    "type": "object",
    "properties": {"t": {"$ref": "#/$defs/t"}},
}


def test_a_schema_that_names_itself_is_shown_to_a_depth(acme: Consumer) -> None:
    """Regression: the page of such a type was answered with 500."""
    event_types.create(name="tree.grown", versions=[{"api_version": "1", "schema": ARRAYS_OF_ITSELF}])
    page = inside(acme).get("/portal/events/tree.grown/")
    assert (page.status_code, "array of array of" in page.content.decode()) == (200, True)


def test_numbers_that_the_database_writes_out_in_full_are_shown(acme: Consumer, producer: Api) -> None:
    """Regression: after 1e25 in a schema or an example, nobody could list the catalogue any more."""
    large = {
        "api_version": "1",
        "schema": {"type": "object", "properties": {"n": {"maximum": 1e25}}},
        "example": {"n": 1e25},
    }
    made = producer.post("event-types/", {"name": "big.number", "versions": [large]})
    changed = producer.patch("event-types/big.number/", {"versions": [large]})

    listed = producer.get("event-types/")
    assert [each.status_code for each in (made, changed, listed)] == [201, 200, 200]
    assert listed.json()["results"][0]["versions"][0]["example"] == {"n": 1e25}
    assert inside(acme).get("/portal/events/big.number/").status_code == 200
