"""deliveries/browse/feed.py: every event of a consumer exactly once, however its transactions overlap."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import orjson
import pytest
from django.core.management import call_command
from django.db import connection, transaction

from deliveries.browse import feed
from deliveries.browse.feed import READ_FEED, START
from deliveries.models import Delivery, Event, FeedOffset
from deliveries.upkeep import overdue
from subscriptions import consumers, endpoints
from subscriptions.models import Consumer
from tests.conftest import Api, PumpRunner

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = {"consumer": "acme", "type": "invoice.paid", "data": {}}
WRITERS, EVENTS_EACH = 8, 25


class Reader:
    """Follows the feed: to `next` where there is one, to the same page again where there is none."""

    def __init__(self, api: Api, *, limit: int = 7, consumer: str = "acme") -> None:
        self._api = api
        self._path = f"consumers/{consumer}/feed/"
        self._query: dict[str, Any] = {"limit": limit}
        self.seen: list[str] = []

    def read(self) -> list[dict[str, Any]]:
        page = self._api.get(self._path, **self._query).json()
        results: list[dict[str, Any]] = page["results"]
        # `next` is null only on an empty page: then there is nothing to go on from.
        assert (page["next"] is None) == (results == [])
        if page["next"]:
            self._query = dict(parse_qsl(urlsplit(page["next"]).query))
        self.seen += [event["id"] for event in results]
        return results

    def read_all(self) -> list[str]:
        while self.read():
            pass
        return self.seen


def write(api: Api, writer: int) -> None:
    """Events in transactions of one to three, each held open for a random moment after its ids were made."""
    chance = random.Random(writer)
    left = EVENTS_EACH
    try:
        while left:
            with transaction.atomic():
                for _ in range(min(left, chance.randint(1, 3))):
                    assert api.post("events/", {**EVENT, "id": f"{writer}-{left}"}).status_code == 202
                    left -= 1
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_sleep(%s)", [chance.uniform(0, 0.008)])
    finally:
        connection.close()


def test_a_reader_beside_eight_writers_sees_every_event_exactly_once(producer: Api, acme: Consumer) -> None:
    # Known before, so that the writers do not wait for each other's first use of it.
    producer.post("events/", {**EVENT, "id": "first"})
    reader = Reader(producer)
    pages_beside_writers = 0

    with ThreadPoolExecutor(max_workers=WRITERS) as pool:
        writers = [pool.submit(write, producer, number) for number in range(WRITERS)]
        while not all(writer.done() for writer in writers):
            pages_beside_writers += bool(reader.read())
    for writer in writers:
        writer.result()
    seen = reader.read_all()

    assert pages_beside_writers > 5
    assert Event.objects.count() == WRITERS * EVENTS_EACH + 1
    assert len(seen) == len(set(seen)) == WRITERS * EVENTS_EACH + 1
    # Whoever starts later reads the same events in the same order.
    assert Reader(producer, limit=50).read_all() == seen


SPEND_TRANSACTIONS = """
    DO $$
    DECLARE spare bigint;
    BEGIN
        -- How many are left before the counter has one digit more.
        SELECT (10 ^ length(now_at)::numeric)::bigint - now_at::bigint INTO spare
        FROM CAST(pg_current_xact_id()::text AS text) AS now_at;
        COMMIT;
        FOR number IN 1 .. spare - 4 LOOP
            PERFORM pg_current_xact_id();
            COMMIT;
        END LOOP;
    END $$
"""


def test_the_order_holds_when_the_transaction_counter_grows_by_a_digit(producer: Api, acme: Consumer) -> None:
    producer.post("events/", {**EVENT, "id": "first"})
    with connection.cursor() as cursor:
        cursor.execute(SPEND_TRANSACTIONS)
    names = [f"e-{number}" for number in range(8)]
    for name in names:
        producer.post("events/", {**EVENT, "id": name})

    assert len({len(str(event.xid)) for event in Event.objects.filter(producer_id__in=names)}) == 2
    assert Reader(producer, limit=2).read_all() == ["first", *names]


def test_the_feed_is_read_from_its_index_without_sorting(producer: Api, acme: Consumer) -> None:
    producer.post("events/batch/", {"events": [EVENT] * 100})
    parameters: dict[str, Any] = {"consumer_id": acme.id, "xid": START.xid, "id": START.id, "limit": 50}

    with transaction.atomic(), connection.cursor() as cursor:
        # A table this small would be read whole.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {READ_FEED}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "event_feed" in plan
    assert "Sort" not in plan


def test_an_event_waits_for_older_transactions_and_is_then_seen_in_its_place(producer: Api, acme: Consumer) -> None:
    producer.post("events/", {**EVENT, "id": "known"})
    reader = Reader(producer)
    assert reader.read_all() == ["known"]
    emitted, commit = threading.Event(), threading.Event()

    def emit_slowly() -> None:
        try:
            with transaction.atomic():
                producer.post("events/", {**EVENT, "id": "early"})
                emitted.set()
                assert commit.wait(10)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        slow = pool.submit(emit_slowly)
        assert emitted.wait(10)
        producer.post("events/", {**EVENT, "id": "late"})
        # Stored and committed, yet an older event may still come before it.
        assert Event.objects.filter(producer_id="late").exists()
        assert reader.read() == []
        commit.set()
        slow.result()

    assert reader.read_all() == ["known", "early", "late"]


RESTORED = """
    UPDATE deliveries_event SET xid = (xid::text::bigint + 1000000)::text::xid8
"""
"""What a dump looks like in a fresh cluster: it brings transaction ids that the counter there has not reached."""


@pytest.mark.parametrize("remedy", ["command", "caretaker"])
def test_the_feed_goes_on_after_a_dump_was_restored_into_a_fresh_cluster(
    producer: Api, acme: Consumer, remedy: str
) -> None:
    for number in range(4):
        producer.post("events/", {**EVENT, "id": f"old-{number}"})
    with connection.cursor() as cursor:
        cursor.execute(RESTORED)
    reader = Reader(producer, limit=2)
    assert reader.read_all() == []

    run_remedy = {"command": lambda: call_command("after_restore"), "caretaker": overdue.advance_feed_horizon}[remedy]
    run_remedy()
    reader.read()  # half of it; the position it holds from now on is one of the old cluster's
    for number in range(3):
        producer.post("events/", {**EVENT, "id": f"new-{number}"})

    expected = [f"old-{number}" for number in range(4)] + [f"new-{number}" for number in range(3)]
    assert reader.read_all() == expected
    assert Reader(producer).read_all() == expected
    # Again it has nothing to do: the counter is past every event.
    before = FeedOffset.objects.get().xids
    run_remedy()
    assert FeedOffset.objects.get().xids == before
    assert feed.is_ahead() is False


def test_a_second_restore_adds_to_the_first(producer: Api, acme: Consumer) -> None:
    for number in range(2):
        producer.post("events/", {**EVENT, "id": f"event-{number}"})
        with connection.cursor() as cursor:
            cursor.execute(RESTORED)
        assert feed.go_on_after_restore() is True
    producer.post("events/", {**EVENT, "id": "event-2"})

    assert Reader(producer).read_all() == ["event-0", "event-1", "event-2"]


def test_without_a_restore_there_is_nothing_to_do(producer: Api, acme: Consumer) -> None:
    producer.post("events/", EVENT)

    assert (feed.is_ahead(), feed.go_on_after_restore(), FeedOffset.objects.count()) == (False, False, 0)


def test_the_same_page_asked_again_later_goes_on_where_it_was(producer: Api, acme: Consumer) -> None:
    reader = Reader(producer, limit=2)
    assert reader.read() == []
    for number in range(3):
        producer.post("events/", {**EVENT, "id": f"e-{number}"})

    assert [event["id"] for event in reader.read()] == ["e-0", "e-1"]
    assert [event["id"] for event in reader.read()] == ["e-2"]
    assert reader.read() == []
    producer.post("events/", {**EVENT, "id": "e-3"})
    assert [event["id"] for event in reader.read()] == ["e-3"]


def test_a_batch_stands_in_the_feed_in_its_own_order(producer: Api, acme: Consumer) -> None:
    names = [f"e-{number}" for number in range(40)]
    producer.post("events/batch/", {"events": [{**EVENT, "id": name} for name in names]})

    assert Reader(producer).read_all() == names


def test_the_feed_shows_each_event_as_it_is_with_its_deliveries_and_their_states(
    producer: Api, acme: Consumer, acme_api: Api, pump: PumpRunner
) -> None:
    good, _ = endpoints.create(consumer=acme, url="http://127.0.0.1:9/good", event_types=["invoice.*"])
    bad, _ = endpoints.create(consumer=acme, url="http://127.0.0.1:9/bad", retry_schedule=[0])
    shown = [producer.post("events/", {**EVENT, "type": name}).json() for name in ("invoice.paid", "order.made")]
    pump.run(transport=httpx.MockTransport(lambda sent: httpx.Response(204 if sent.url.path == "/good" else 500)))
    shown.append(producer.post("events/", EVENT).json())

    feed = acme_api.get("consumers/acme/feed/").json()["results"]

    assert [{**event, "deliveries": None} for event in feed] == [{**event, "deliveries": None} for event in shown]
    states = [{delivery["endpoint"]: delivery["state"] for delivery in event["deliveries"]} for event in feed]
    assert states == [
        {good.public_id: "delivered", bad.public_id: "dead"},
        {bad.public_id: "dead"},
        {good.public_id: "pending", bad.public_id: "pending"},
    ]
    ids = {delivery["id"] for event in feed for delivery in event["deliveries"]}
    assert ids == {delivery.public_id for delivery in Delivery.objects.all()}


def test_an_event_that_nobody_wanted_is_in_the_feed_too(producer: Api, acme: Consumer, acme_api: Api) -> None:
    producer.post("events/", {**EVENT, "id": "unwanted"})

    [event] = acme_api.get("consumers/acme/feed/").json()["results"]

    assert (event["id"], event["delivery_count"], event["deliveries"]) == ("unwanted", 0, [])


def test_s11_the_feed_holds_the_consumers_own_events_and_no_others(producer: Api, acme: Consumer) -> None:
    consumers.create(uid="globex")
    for uid in ("acme", "globex", "acme"):
        producer.post("events/", {**EVENT, "consumer": uid, "data": {"whose": uid}})

    pages = {uid: Reader(producer, consumer=uid).read() for uid in ("acme", "globex")}

    assert {uid: [event["data"]["whose"] for event in page] for uid, page in pages.items()} == {
        "acme": ["acme", "acme"],
        "globex": ["globex"],
    }


def test_a_cursor_of_another_list_is_refused(producer: Api, acme: Consumer) -> None:
    producer.post("events/batch/", {"events": [EVENT, EVENT]})
    other = dict(parse_qsl(urlsplit(producer.get("events/", limit=1).json()["next"]).query))["cursor"]

    answer = producer.get("consumers/acme/feed/", cursor=other)

    assert (answer.status_code, orjson.loads(answer.content)["code"]) == (400, "invalid_cursor")


def test_only_what_has_not_arrived_everywhere_is_shown_where_asked_for(
    producer: Api, acme: Consumer, pump: PumpRunner
) -> None:
    endpoints.create(consumer=acme, url="https://a.example/hook")
    producer.post("events/", {**EVENT, "id": "arrived"})
    pump.run(transport=httpx.MockTransport(lambda request: httpx.Response(200)))
    producer.post("events/", {**EVENT, "id": "refused"})
    pump.run(transport=httpx.MockTransport(lambda request: httpx.Response(500)))
    producer.post("events/", {**EVENT, "id": "waiting"})

    page = producer.get("consumers/acme/feed/", undelivered="true").json()
    assert [event["id"] for event in page["results"]] == ["refused", "waiting"]
    assert [event["deliveries"][0]["state"] for event in page["results"]] == ["pending", "pending"]
    first = producer.get("consumers/acme/feed/", undelivered="true", limit=1).json()
    assert [event["id"] for event in first["results"]] == ["refused"]
    query = dict(parse_qsl(urlsplit(first["next"]).query))
    assert query["undelivered"] == "true"
    second = producer.get("consumers/acme/feed/", **query).json()
    assert [event["id"] for event in second["results"]] == ["waiting"]


def test_an_event_that_no_endpoint_wanted_is_undelivered(producer: Api, acme: Consumer) -> None:
    producer.post("events/", {**EVENT, "id": "nobodys"})
    page = producer.get("consumers/acme/feed/", undelivered="true").json()
    assert [event["id"] for event in page["results"]] == ["nobodys"]


def test_a_page_on_which_everything_has_arrived_is_empty_and_goes_on(
    producer: Api, acme: Consumer, pump: PumpRunner
) -> None:
    endpoints.create(consumer=acme, url="https://a.example/hook")
    producer.post("events/", {**EVENT, "id": "arrived"})
    pump.run(transport=httpx.MockTransport(lambda request: httpx.Response(200)))
    page = producer.get("consumers/acme/feed/", undelivered="true").json()
    assert page["results"] == []
    query = dict(parse_qsl(urlsplit(page["next"]).query))
    assert producer.get("consumers/acme/feed/", **query).json() == {"results": [], "next": None}


@pytest.mark.parametrize("value", ["yes", "1", "", "True"])
def test_undelivered_is_true_or_false(producer: Api, acme: Consumer, value: str) -> None:
    assert producer.get("consumers/acme/feed/", undelivered=value).json()["code"] == "invalid_parameter"
