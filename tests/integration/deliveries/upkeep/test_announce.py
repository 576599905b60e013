"""deliveries/upkeep/announce.py: operators hear by webhook, and consumers at endpoints that ask for it. Once. Mail has
tests of its own (test_mail.py)."""

import threading
from typing import Any

import httpx
import orjson
import pytest
import stripe
from django.core.mail import EmailMessage
from django.db import connection, transaction
from pytest_django import Settings

from deliveries import ingest
from deliveries.health import lifecycle
from deliveries.health.breaker import Breaker
from deliveries.health.models import Notice
from deliveries.models import Delivery, Event
from deliveries.upkeep import announce, overdue
from subscriptions import consumers, endpoints, ids
from subscriptions.models import Consumer, Endpoint, MailRecipient
from tests.conftest import PumpRunner
from tests.walk import accept, answered, claim_for, new_endpoint, pass_time, settle_all, states

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = Breaker(failures=1_000_000, first_cooldown=1, longest_cooldown=1)


@pytest.fixture
def house(db: None) -> Consumer:
    """The consumer whose endpoints hear of everybody's."""
    return consumers.create(uid="operator")


@pytest.fixture
def acme(db: None) -> Consumer:
    return consumers.create(uid="acme", contact_email="ops@acme.test")


def dead_letter(consumer: Consumer) -> Delivery:
    endpoint = new_endpoint(consumer, retry_schedule=[0])
    accept(consumer)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 500), breaker=NEVER)
    return Delivery.objects.get(id=claimed.id)


def failing_for_days(consumer: Consumer, days: int) -> Endpoint:
    endpoint = new_endpoint(consumer, retry_schedule=[0] * 20)
    accept(consumer)
    for day in range(days + 1):
        pass_time(days=1 if day else 0)
        [claimed] = claim_for(endpoint).deliveries
        settle_all(answered(claimed, 500), breaker=NEVER)
        overdue.watch_failing()
    return endpoint


def announced_events() -> list[tuple[str, dict[str, Any]]]:
    """The operational events on record: type and data, in order."""
    events = Event.objects.filter(consumer__uid="operator").order_by("id")
    return [(event.type, orjson.loads(bytes(event.body or b""))["data"]) for event in events]


# ── webhooks to the operator ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_dead_letter_reaches_the_operators_endpoint_as_a_signed_webhook(
    house: Consumer, acme: Consumer, pump: PumpRunner
) -> None:
    _, secret = endpoints.create(consumer=house, url="https://operator.test/")
    dead = dead_letter(acme)
    notice = Notice.objects.get(kind="dead")
    requests: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200)

    announce.announce_next()
    pump.run(transport=httpx.MockTransport(take))

    [request] = requests
    body = orjson.loads(request.content)
    assert stripe.WebhookSignature.verify_header(
        request.content.decode(), request.headers["webhook-signature"], secret, tolerance=5
    )
    assert body["type"] == "delivery.dead"
    assert body["id"] == request.headers["webhook-id"] == ids.show("ntc", notice.id)
    assert body["data"] == {
        "endpoint": dead.endpoint.public_id,
        "url": dead.endpoint.url,
        "consumer": "acme",
        "reason": "attempts_exhausted",
        "at": ingest.show_time(notice.created_at),
        "delivery": dead.public_id,
        "event": dead.event.public_id,
    }


def test_warnings_the_end_and_the_recovery_are_announced_in_their_order(house: Consumer, acme: Consumer) -> None:
    endpoint = failing_for_days(acme, 5)
    lifecycle.resume(endpoint, reason="test")
    announce.announce_next()

    assert [(kind, data["endpoint"]) for kind, data in announced_events()] == [
        ("endpoint.warning", endpoint.public_id),
        ("endpoint.warning", endpoint.public_id),
        ("endpoint.disabled", endpoint.public_id),
    ]


def test_a_recovery_is_announced(house: Consumer, acme: Consumer) -> None:
    endpoint = failing_for_days(acme, 1)
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 200))

    announce.announce_next()

    assert [kind for kind, _ in announced_events()] == ["endpoint.warning", "endpoint.recovered"]


def test_what_only_the_health_timeline_shows_is_announced_to_nobody(
    house: Consumer, acme: Consumer, mailoutbox: list[EmailMessage]
) -> None:
    endpoint = new_endpoint(acme)
    lifecycle.pause(endpoint, reason="test")
    lifecycle.resume(endpoint, reason="test")

    assert announce.announce_next() == 2

    assert (announced_events(), mailoutbox) == ([], [])
    assert Notice.objects.filter(announced_at__isnull=True).count() == 0


def test_an_operators_endpoint_hears_what_it_asked_for(house: Consumer, acme: Consumer) -> None:
    wanting = new_endpoint(house, event_types=["delivery.*"])
    other = new_endpoint(house, event_types=["endpoint.*"])
    dead_letter(acme)

    announce.announce_next()

    assert (states(wanting), states(other)) == (["pending"], [])


def test_announcing_twice_announces_once(house: Consumer, acme: Consumer) -> None:
    failing_for_days(acme, 1)

    assert [announce.announce_next(), announce.announce_next()] == [1, 0]

    assert len(announced_events()) == 1
    assert [len(each.owed_notices) for each in MailRecipient.objects.all()] == [1]


def test_a_crash_before_the_commit_announces_nothing_and_the_next_run_does(house: Consumer, acme: Consumer) -> None:
    dead_letter(acme)

    with pytest.raises(KeyboardInterrupt), transaction.atomic():
        assert announce.announce_next() == 1
        raise KeyboardInterrupt

    assert announced_events() == []
    announce.announce_next()
    assert len(announced_events()) == 1


def test_several_announcers_at_once_announce_each_notice_once(house: Consumer, acme: Consumer) -> None:
    for _ in range(5):
        dead_letter(acme)
    taken: list[int] = []

    def work() -> None:
        try:
            taken.append(announce.announce_next())
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert (sum(taken), len(announced_events())) == (5, 5)


def test_the_operators_own_endpoints_are_not_talked_about_so_there_is_an_end(house: Consumer, acme: Consumer) -> None:
    own = new_endpoint(house, retry_schedule=[0])
    dead_letter(acme)
    announce.announce_next()
    [told] = claim_for(own).deliveries
    settle_all(answered(told, 500), breaker=NEVER)
    assert states(own) == ["dead"]

    assert announce.announce_next() == 1
    assert len(announced_events()) == 1
    assert announce.announce_next() == 0


def test_without_an_operator_the_notices_are_done_with_and_nothing_is_emitted(acme: Consumer) -> None:
    dead_letter(acme)

    assert announce.announce_next() == 1

    assert Notice.objects.filter(announced_at__isnull=True).count() == 0
    assert Event.objects.exclude(consumer=acme).count() == 0


def test_operational_events_go_out_also_where_unknown_types_are_refused(
    house: Consumer, acme: Consumer, settings: Settings
) -> None:
    """Regression: they were refused like anybody's, and the notice was marked as announced."""
    dead_letter(acme)
    settings.UNKNOWN_EVENT_TYPES = "refuse"

    announce.announce_next()

    assert [kind for kind, _ in announced_events()] == ["delivery.dead"]


def test_the_last_warning_says_that_it_is_the_last(house: Consumer, acme: Consumer) -> None:
    failing_for_days(acme, 4)
    announce.announce_next()
    assert [data["last"] for _, data in announced_events()] == [False, True]


# ── webhooks to another endpoint of the consumer ─────────────────────────────────────────────────────────────────────


def heard_by(endpoint: Endpoint) -> list[str]:
    return list(Delivery.objects.filter(endpoint=endpoint).order_by("id").values_list("event__type", flat=True))


def test_an_endpoint_that_asks_by_name_hears_of_the_others_from_first_failure_to_recovery(acme: Consumer) -> None:
    listens = new_endpoint(acme, event_types=["notification.*"])
    endpoint = failing_for_days(acme, 5)
    announce.announce_next()
    lifecycle.resume(endpoint, reason="test")
    [claimed] = claim_for(endpoint).deliveries
    settle_all(answered(claimed, 200))
    announce.announce_next()

    assert heard_by(listens) == [
        "notification.endpoint_failing", "notification.endpoint_disabling", "notification.endpoint_disabled",
        "notification.endpoint_recovered",
    ]  # fmt: skip
    assert set(heard_by(endpoint)) == {"invoice.paid"}


def test_it_hears_of_what_it_named_alone(acme: Consumer) -> None:
    listens = new_endpoint(acme, event_types=["notification.endpoint_disabled"])
    failing_for_days(acme, 5)
    announce.announce_next()
    assert heard_by(listens) == ["notification.endpoint_disabled"]


def test_who_wants_all_event_types_did_not_ask_for_this(acme: Consumer) -> None:
    new_endpoint(acme, event_types=["notification.*"])
    everything = new_endpoint(acme, event_types=["*"])
    failing_for_days(acme, 1)
    announce.announce_next()
    assert set(heard_by(everything)) == {"invoice.paid"}


def test_where_nobody_else_asks_no_event_is_made(acme: Consumer) -> None:
    endpoint = failing_for_days(acme, 1)
    lifecycle.update(endpoint, {"event_types": ["invoice.*", "notification.*"]})
    announce.announce_next()
    assert not Event.objects.filter(type__startswith="notification.").exists()


def test_another_consumers_endpoint_hears_nothing(acme: Consumer) -> None:
    stranger = new_endpoint(consumers.create(uid="globex"), event_types=["notification.*"])
    failing_for_days(acme, 1)
    announce.announce_next()
    assert heard_by(stranger) == []
