"""The audit log is read by operators alone, page by page, by every filter, and as a file no spreadsheet works out."""

import csv
from datetime import timedelta
from io import StringIO
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.db import transaction
from django.test import Client

from deliveries.actions import endpoints as actions
from deliveries.console import audit as page
from subscriptions import consumers
from subscriptions.audit import Actor, Wanted, record
from subscriptions.models import AuditEntry, Consumer
from tests.audit import entries
from tests.conftest import Api
from tests.console import logged_in
from tests.walk import new_endpoint

pytestmark = pytest.mark.django_db

OLGA = Actor.of_user("olga")


def write(times: int = 1, *, actor: Actor = OLGA, **fields: Any) -> None:
    with transaction.atomic():
        for number in range(times):
            record(**{"actor": actor, "action": "endpoint.paused", "target": f"ep_{number}", **fields})


def listed(api: Api, **query: Any) -> list[str]:
    return [result["target"] for result in api.get("audit/", **query).json()["results"]]


# ── GET audit/ ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_operators_read_the_log(operator: Api, producer: Api, acme_api: Api) -> None:
    write()
    answers = [api.get("audit/") for api in (operator, producer, acme_api)]
    assert [answer.status_code for answer in answers] == [200, 403, 403]


def test_an_entry_says_who_what_how_many_and_why(operator: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    actions.update(endpoint, {"max_in_flight": 3, "description": ""}, actor=OLGA, why="slow receiver")

    [entry] = operator.get("audit/").json()["results"]

    assert entry.pop("id").startswith("aud_")
    assert entry.pop("at")
    assert entry == {
        "actor": "user olga", "actor_kind": "user", "actor_id": "olga", "action": "endpoint.changed",
        "target": endpoint.public_id, "consumer": acme.public_id, "count": 1, "detail": "max_in_flight",
        "why": "slow receiver",
    }  # fmt: skip


def test_the_log_is_read_page_by_page_newest_first(operator: Api) -> None:
    write(5)

    first = operator.get("audit/", limit=2).json()
    rest = operator.get("audit/", **dict(parse_qsl(urlsplit(first["next"]).query)) | {"limit": 3}).json()

    shown = [entry["target"] for entry in (*first["results"], *rest["results"])]
    assert (shown, rest["next"]) == (["ep_4", "ep_3", "ep_2", "ep_1", "ep_0"], None)


def test_every_filter_narrows(operator: Api, acme: Consumer, producer: Api) -> None:
    write(target="by olga", consumer=acme)
    write(target="by otto", actor=Actor.of_user("otto"), action="endpoint.resumed")
    made = producer.post("event-types/", {"name": "order.made"})
    assert made.status_code == 201
    key = AuditEntry.objects.get(actor_kind="key")

    assert listed(operator, actor="olga") == listed(operator, actor="user olga") == ["by olga"]
    assert listed(operator, actor="key") == listed(operator, actor=key.actor_id) == ["order.made"]
    assert listed(operator, actor=key.actor) == ["order.made"]
    assert listed(operator, action="endpoint.resumed") == listed(operator, target="by otto") == ["by otto"]
    assert listed(operator, consumer="acme") == listed(operator, consumer=acme.public_id) == ["by olga"]
    assert listed(operator, actor="olga", action="endpoint.resumed") == []
    assert operator.get("audit/", consumer="nobody").status_code == 404


def test_a_deleted_consumer_s_entries_are_found_by_its_id(operator: Api, acme: Consumer) -> None:
    write(target="theirs", consumer=acme)
    consumers.delete(acme)
    assert listed(operator, consumer=acme.public_id) == ["theirs"]


def test_a_time_from_an_answer_finds_that_entry(operator: Api) -> None:
    write(2)
    at = operator.get("audit/").json()["results"][0]["at"]
    moment = AuditEntry.objects.latest("id").at
    assert listed(operator, since=at)[0] == "ep_1"
    assert listed(operator, until=moment.isoformat(), actor="olga") == listed(operator)[1:]
    assert listed(operator, since=(moment + timedelta(seconds=1)).isoformat()) == []


@pytest.mark.parametrize("query", [{"since": "yesterday"}, {"until": "2026-01-01"}, {"cursor": "x"}, {"limit": "0"}])
def test_what_makes_no_sense_is_refused(operator: Api, query: dict[str, str]) -> None:
    assert operator.get("audit/", **query).status_code == 400


# ── one entry for what changed ───────────────────────────────────────────────────────────────────────────────────────


def test_what_changed_nothing_leaves_no_entry(operator: Api, acme: Consumer) -> None:
    endpoint = new_endpoint(acme, max_in_flight=7)
    path = f"endpoints/{endpoint.public_id}/"
    operator.post("event-types/", {"name": "a.b", "versions": [{"api_version": "1", "schema": {}}]})
    AuditEntry.objects.all().delete()

    answers = [
        operator.post(f"{path}resume/"),
        operator.patch(path, {"max_in_flight": 7}),
        operator.patch(path, {"why": "no reason"}),
        operator.patch("consumers/acme/", {"uid": "acme", "name": "Acme"}),
        operator.patch("event-types/a.b/", {"archived": False, "versions": [{"api_version": "1", "schema": {}}]}),
        operator.delete(f"{path}?dry_run=true"),
        operator.post("replays/", {"endpoint": endpoint.public_id, "dry_run": True}),
    ]

    assert {answer.status_code for answer in answers} == {200}
    assert entries() == []


def test_a_version_that_changed_is_named(operator: Api) -> None:
    operator.post("event-types/", {"name": "a.b"})
    operator.patch("event-types/a.b/", {"archived": True, "versions": [{"api_version": "2", "schema": {}}]})
    assert AuditEntry.objects.latest("id").detail == "archived, version 2"


def test_a_change_that_is_rolled_back_takes_its_entry_with_it(operator: Api, acme: Consumer, settings: Any) -> None:
    settings.MAX_ENDPOINTS_PER_CONSUMER = 0
    answers = [
        operator.post("consumers/acme/endpoints/", {"url": "http://127.0.0.1:9/"}),
        operator.post("consumers/", {"uid": "acme"}),
        operator.delete("consumers/acme/keys/key_0/"),
        operator.delete("endpoints/ep_0/"),
    ]
    assert [answer.status_code for answer in answers] == [409, 409, 404, 404]
    assert entries() == []


@pytest.mark.django_db(transaction=True)
def test_an_entry_outside_the_transaction_of_its_change_is_refused() -> None:
    with pytest.raises(RuntimeError, match="transaction"):
        record(actor=OLGA, action="endpoint.paused")
    assert entries() == []


# ── the console's page and file ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def reader(db: None) -> Client:
    return logged_in("rita", group="Read-only")


def exported(client: Client, **query: str) -> list[dict[str, str]]:
    answer = client.get("/admin/audit/export/", query)
    assert answer.status_code == 200
    return list(csv.DictReader(StringIO(answer.getvalue().decode())))


def test_the_page_filters_and_says_what_it_does_not_understand(reader: Client) -> None:
    write(target="by olga")
    write(target="by otto", actor=Actor.of_user("otto"))
    shown = reader.get("/admin/audit/", {"actor": "otto"})
    assert [entry.target for entry in shown.context["page"].rows] == ["by otto"]
    assert "/admin/audit/export/?actor=otto" in shown.content.decode()
    assert b"is no time" in reader.get("/admin/audit/", {"since": "soon"}).content
    assert reader.get("/admin/audit/export/", {"since": "soon"}).status_code == 400
    for query in ({"until": "1960"}, {"before": "x"}):
        assert reader.get("/admin/audit/", query).status_code == 200


def test_the_file_holds_what_the_page_shows_over_all_its_pages(reader: Client, acme: Consumer) -> None:
    write(120, consumer=acme, count=3, why='They said: "now,\nplease"')
    write(actor=Actor.of_user("otto"), target="another's")

    rows = exported(reader, actor="olga")

    assert [row["target"] for row in rows] == [f"ep_{number}" for number in reversed(range(120))]
    assert rows[0]["id"].startswith("aud_")
    assert {name: rows[0][name] for name in ("actor", "consumer", "count", "why")} == {
        "actor": "user olga", "consumer": acme.public_id, "count": "3", "why": 'They said: "now,\nplease"',
    }  # fmt: skip


@pytest.mark.parametrize(("most", "rows"), [(1000, 120), (120, 120), (70, 70), (100, 100)])
def test_the_file_is_written_batch_by_batch_and_ends_at_its_limit(most: int, rows: int) -> None:
    write(120)
    [_head, *lines] = page.lines(Wanted(), most=most, batch=50)
    assert (len(lines), len(set(lines))) == (rows, rows)


@pytest.mark.parametrize("why", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", '=HYPERLINK("http://x")'])
def test_a_cell_that_would_be_a_formula_is_kept_as_text(reader: Client, why: str) -> None:
    write(why=why, target=why)
    [row] = exported(reader)
    assert (row["why"], row["target"]) == (f"'{why}", f"'{why}")


def test_the_file_is_for_those_who_may_look_and_by_get(reader: Client) -> None:
    assert Client().get("/admin/audit/export/").status_code == 302
    assert logged_in("nobody").get("/admin/audit/export/").status_code == 403
    assert reader.post("/admin/audit/export/").status_code == 405
    answer = reader.get("/admin/audit/export/")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="audit-')
    assert "Content-Security-Policy" in answer.headers
