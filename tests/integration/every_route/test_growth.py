"""What a caller can do in a loop leaves no more rows than docs/limits.md says."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone

from deliveries.endpoint_tests.models import CheckUp
from deliveries.health import lifecycle
from deliveries.health.models import Notice, NoticeKind
from deliveries.models import Delivery
from deliveries.upkeep import retention
from deliveries.upkeep.retention import Days
from subscriptions import endpoints
from subscriptions.models import AuditEntry, Consumer, Endpoint, Lane
from tests.conftest import Api
from tests.portal import inside
from tests.walk import accept, new_endpoint

pytestmark = pytest.mark.django_db(transaction=True)

DAYS = Days(attempts=30, payloads=40, delivered=90, dead=180, audit_entries=730, deleted_endpoints=7)
LIMITS = (Path(django_settings.BASE_DIR) / "docs" / "limits.md").read_text()


def forget_after(days: float) -> None:
    retention.forget(DAYS, now=timezone.now() + timedelta(days=days))


def test_a_consumer_makes_only_so_many_endpoints_within_a_day_however_many_it_deletes(
    acme_api: Api, settings: Any
) -> None:
    settings.MAX_NEW_ENDPOINTS_PER_DAY = 3
    statuses = []
    for number in range(5):
        answer = acme_api.post("consumers/acme/endpoints/", {"url": f"http://127.0.0.1/{number}"})
        statuses.append(answer.status_code)
        if answer.status_code == 201:
            assert acme_api.delete(f"endpoints/{answer.json()['id']}/").status_code == 204
    assert statuses == [201, 201, 201, 429, 429]
    assert (answer.json()["code"], answer.headers["Retry-After"]) == ("too_many_new_endpoints", "3600")
    assert Endpoint.objects.count() == 3


def test_a_deleted_endpoint_without_a_history_is_forgotten_after_a_week_with_all_that_was_kept_of_it(
    acme: Consumer,
) -> None:
    gone, lives = new_endpoint(acme), new_endpoint(acme)
    for endpoint in (gone, lives):
        lifecycle.pause(endpoint, reason="for the test")
        CheckUp.objects.create(endpoint=endpoint, started_at=timezone.now())
    endpoints.delete(gone)
    forget_after(6)
    assert Endpoint.objects.count() == 2
    forget_after(14)  # positions begin anew each week
    left = [Endpoint.objects.values_list("id"), Lane.objects.values_list("endpoint_id")]
    left += [Notice.objects.values_list("endpoint_id"), CheckUp.objects.values_list("endpoint_id")]
    assert [list(rows) for rows in left] == [[(lives.id,)]] * 4


def test_a_deleted_endpoint_that_still_has_deliveries_is_kept(acme: Consumer) -> None:
    endpoint = new_endpoint(acme)
    accept(acme)
    endpoints.delete(endpoint)
    forget_after(14)
    assert (Endpoint.objects.count(), Delivery.objects.count()) == (1, 1)


def test_nothing_else_refers_to_an_endpoint() -> None:
    """A new table that does belongs into FORGET_ENDPOINTS."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text FROM pg_constraint WHERE confrelid = 'subscriptions_endpoint'::regclass"
        )
        referring = {row[0] for row in cursor.fetchall()}
    assert referring == {"subscriptions_lane", "subscriptions_checkup", "deliveries_notice", "deliveries_senttest"}


def test_pausing_and_resuming_in_a_loop_keeps_the_newest_notices_alone(acme: Consumer) -> None:
    endpoint, other = new_endpoint(acme), new_endpoint(acme)
    lifecycle.pause(other, reason="not of this")
    for turn in range(30):
        lifecycle.pause(endpoint, reason=f"turn {turn}")
        lifecycle.resume(endpoint, reason=f"turn {turn}")
    kept = list(Notice.objects.filter(endpoint=endpoint).order_by("id").values_list("kind", "reason"))
    expected = [(kind, f"turn {turn}") for turn in range(20, 30) for kind in (NoticeKind.PAUSED, NoticeKind.RESUMED)]
    assert kept == expected
    assert Notice.objects.filter(endpoint=other).count() == 1


def test_every_table_has_a_line_in_the_docs_that_says_what_bounds_it() -> None:
    own = [model for app in ("subscriptions", "deliveries") for model in apps.get_app_config(app).get_models()]
    listed = set(re.findall(r"^\| `(\w+)`", LIMITS, re.MULTILINE))
    assert {model.__name__ for model in own} <= listed, "docs/limits.md lists every table"


def test_a_consumer_that_changes_things_in_a_loop_is_stopped_and_operators_are_not(
    acme: Consumer, acme_api: Api, operator: Api, settings: Any
) -> None:
    settings.MAX_CHANGES_PER_DAY = 4
    path = f"endpoints/{new_endpoint(acme).public_id}"
    answers = [acme_api.post(f"{path}/{action}/") for action in ("pause", "resume", "pause", "resume", "pause")]
    assert [answer.status_code for answer in answers] == [200] * 4 + [429]
    assert answers[-1].json()["code"] == "too_many_changes"
    assert Endpoint.objects.get().status == "active"
    assert operator.post(f"{path}/pause/").status_code == 200
    assert AuditEntry.objects.count() == 5


def test_the_portal_says_when_a_consumer_has_changed_too_much(acme: Consumer, settings: Any) -> None:
    settings.MAX_CHANGES_PER_DAY = 2
    endpoint, visitor = new_endpoint(acme), inside(acme)
    visitor.post(f"/portal/endpoints/{endpoint.public_id}/pause/")
    answer = visitor.post(f"/portal/endpoints/{endpoint.public_id}/resume/", follow=True)
    assert "As many changes as are allowed within a day" in answer.content.decode()
    assert Endpoint.objects.get().status == "paused"
    assert visitor.post("/portal/leave/").status_code == 302
