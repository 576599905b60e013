"""S14: what a key made ends with it, however it was made; keys are not too many, and many keys are one owner."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from subscriptions import consumers, keys, tasks
from subscriptions.access import key_tree
from subscriptions.models import ApiKey, Consumer, Role
from tests.conftest import Api
from tests.console import logged_in
from tests.ledger import ledger
from tests.local import wait_until
from tests.walk import pass_time

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)

KEYS = "consumers/acme/keys/"


def issued(api: Api, **fields: Any) -> tuple[str, Api]:
    """The id of a new key of acme's, made with this one, and its holder."""
    answer = api.post(KEYS, fields)
    assert answer.status_code == 201, answer.json()
    return answer.json()["id"], Api(answer.json()["key"])


def works(*holders: Api) -> list[bool]:
    return [holder.get("consumers/acme/").status_code == 200 for holder in holders]


def expiring(consumer: Consumer, **length: int) -> tuple[datetime, Api]:
    ends_at = timezone.now() + timedelta(**length)
    return ends_at, Api(keys.issue(role=Role.CONSUMER, consumer=consumer, expires_at=ends_at)[1])


# ── Expiry ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fields", [{}, {"expires_at": None}], ids=["not named", "null"])
def test_s14_a_key_about_to_expire_makes_one_that_ends_with_it(acme: Consumer, fields: dict[str, Any]) -> None:
    ends_at, parent = expiring(acme, minutes=1)

    shown = parent.post(KEYS, fields).json()

    assert datetime.fromisoformat(shown["expires_at"]) == ends_at
    pass_time(minutes=2)
    assert works(parent, Api(shown["key"])) == [False, False]


def test_s14_a_key_that_would_outlive_the_one_it_is_made_with_is_refused(acme: Consumer) -> None:
    _, parent = expiring(acme, minutes=1)
    works(parent)
    before = ledger()

    answer = parent.post(KEYS, {"expires_at": "2999-01-01T00:00:00Z"})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert answer.json()["errors"][0]["pointer"] == "/expires_at"
    assert ledger() == before


def test_s14_a_key_may_end_sooner_than_the_one_it_is_made_with(acme: Consumer) -> None:
    _, parent = expiring(acme, days=2)
    sooner = timezone.now() + timedelta(days=1)

    shown = parent.post(KEYS, {"expires_at": sooner.isoformat()}).json()

    assert datetime.fromisoformat(shown["expires_at"]) == sooner


# ── Revocation ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_s14_revoking_a_leaked_key_revokes_everything_it_made(producer: Api, acme: Consumer) -> None:
    leaked_id, leaked = issued(producer)
    _, child = issued(leaked)
    _, grandchild = issued(child)
    _, other = issued(producer)

    assert producer.delete(f"{KEYS}{leaked_id}/").status_code == 204

    assert works(leaked, child, grandchild, other) == [False, False, False, True]


def test_s14_a_revoked_producer_takes_the_keys_of_its_consumers_with_it(acme: Consumer) -> None:
    key, secret = keys.issue(role=Role.PRODUCER)
    _, child = issued(Api(secret))
    _, grandchild = issued(child)

    assert keys.revoke(key_id=key.id) == 3

    assert works(child, grandchild) == [False, False]


def test_s14_a_key_says_which_key_made_it(producer: Api, acme: Consumer) -> None:
    root, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    child_id, _ = issued(Api(secret))

    shown = {key["id"]: key["issued_by"] for key in producer.get(KEYS).json()["results"]}

    assert shown == {root.public_id: None, child_id: root.public_id}


@committed
def test_s14_a_key_made_while_its_maker_is_revoked_does_not_survive_it(acme: Consumer) -> None:
    """The revocation waits until the new key is there to be found. By its snapshot alone it would miss it."""
    key, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    maker = keys.verify(secret)
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        _, child = keys.issue(role=Role.CONSUMER, consumer=acme, issued_by=maker)
        revoking = pool.submit(closing, lambda: keys.revoke(key_id=key.id))
        wait_until(lambda: revoking.done() or waiting() == 1, seconds=20)
    assert (revoking.result(20), keys.verify(child)) == (2, None)


@committed
def test_s14_a_revoked_key_makes_no_key_although_it_was_let_in_before(acme: Consumer) -> None:
    key, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    maker = keys.verify(secret)
    assert keys.revoke(key_id=key.id) == 1

    with pytest.raises(key_tree.KeyEnded):
        keys.issue(role=Role.CONSUMER, consumer=acme, issued_by=maker)
    assert ApiKey.objects.count() == 1


def test_s14_a_link_to_the_portal_ends_with_the_key_that_made_it(acme: Consumer) -> None:
    key, secret = keys.issue(role=Role.PRODUCER)
    links = [Api(secret).post("consumers/acme/portal-link/").json()["url"] for _ in range(2)]
    visitor = Client()
    visitor.get(links[0])
    visitor.post(links[0])
    assert visitor.get("/portal/").status_code == 200

    keys.revoke(key_id=key.id)

    assert visitor.get("/portal/").status_code != 200
    assert Client().post(links[1]).status_code != 302


def test_s14_the_console_revokes_a_key_with_everything_it_made(acme: Consumer, producer: Api) -> None:
    key, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    _, child = issued(Api(secret))
    console = logged_in("root", is_superuser=True)

    console.post(f"/admin/keys/{key.public_id}/revoke/", {"why": "leaked"})

    assert works(Api(secret), child) == [False, False]


@pytest.mark.parametrize("action", ["", "change/", "edit/", "update/"])
def test_s14_no_form_of_the_console_makes_a_key_live_longer(action: str, acme: Consumer) -> None:
    ends_at, _ = expiring(acme, minutes=1)
    key = ApiKey.objects.get()
    console = logged_in("root", is_superuser=True)

    form = {"name": "renamed", "ends": "", "expires_at_0": "2999-01-01", "expires_at_1": "00:00"}
    answers = [
        console.post(f"/admin/{page}/{action}", form)
        for page in (f"keys/{key.public_id}", f"subscriptions/apikey/{key.id}")
    ]

    assert {answer.status_code for answer in answers} <= {404, 405}
    assert ApiKey.objects.values_list("name", "expires_at").get() == ("", ends_at)


def closing(run: Callable[[], Any]) -> Any:
    try:
        return run()
    finally:
        connection.close()


def waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return int((cursor.fetchone() or [0])[0])


# ── How many ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@committed
def test_s14_the_number_of_a_consumers_living_keys_is_capped_exactly(
    acme: Consumer, acme_api: Api, settings: Any
) -> None:
    settings.MAX_KEYS_PER_CONSUMER = 4

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: closing(lambda: acme_api.post(KEYS)), range(8)))

    assert Counter(answer.status_code for answer in answers) == {201: 3, 409: 5}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"too_many_keys"}
    assert ApiKey.objects.count() == 4


def test_s14_a_revoked_or_expired_key_makes_room(acme: Consumer, producer: Api, settings: Any) -> None:
    settings.MAX_KEYS_PER_CONSUMER = 2
    expiring(acme, minutes=1)
    first, _ = issued(producer)
    assert producer.post(KEYS).status_code == 409

    producer.delete(f"{KEYS}{first}/")
    issued(producer)
    assert producer.post(KEYS).status_code == 409
    pass_time(minutes=2)
    issued(producer)


def test_s14_making_and_revoking_in_a_loop_comes_to_an_end(acme: Consumer, producer: Api, settings: Any) -> None:
    settings.MAX_KEYS_PER_CONSUMER = 1
    for _ in range(10):
        producer.delete(f"{KEYS}{issued(producer)[0]}/")

    answer = producer.post(KEYS)

    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_keys")
    assert ApiKey.objects.filter(consumer=acme).count() == 10
    pass_time(days=1, minutes=1)
    assert producer.post(KEYS).status_code == 201


def test_s14_ended_keys_are_forgotten_in_time_and_living_ones_are_not(acme: Consumer, settings: Any) -> None:
    settings.RETENTION_KEY_DAYS = 30
    living, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    revoked, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    keys.revoke(key_id=revoked.id)
    expiring(acme, minutes=1)

    pass_time(days=29)
    tasks.forget_keys()
    assert ApiKey.objects.count() == 3
    pass_time(days=2)
    tasks.forget_keys()
    assert list(ApiKey.objects.values_list("id", flat=True)) == [living.id]


# ── One owner ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_s14_all_keys_of_a_consumer_share_one_rate_limit(
    acme: Consumer, settings: Any, patient_redis: "redis.Redis"
) -> None:
    holders = [Api(keys.issue(role=Role.CONSUMER, consumer=acme)[1]) for _ in range(5)]
    settings.API_RATE_PER_SECOND, settings.API_RATE_BURST = 1, 2

    # Slower than a second in all, a busy machine would earn one request more.
    answers = [holder.get("consumers/acme/") for holder in holders]

    assert [answer.status_code for answer in answers][:2] == [200, 200]
    assert Counter(answer.status_code for answer in answers)[429] >= 2


def test_s14_all_keys_of_a_service_share_one_rate_limit_at_both_doors(
    acme: Consumer, settings: Any, patient_redis: "redis.Redis"
) -> None:
    holders = [Api(keys.issue(role=Role.PRODUCER, owner="billing")[1]) for _ in range(4)]
    event = {"consumer": "acme", "type": "invoice.paid", "data": {}}
    settings.API_RATE_PER_SECOND, settings.API_RATE_BURST = 1, 2
    for holder in holders:  # from now on each is remembered, and takes the short way
        assert holder.post("events/", event).status_code == 202
        patient_redis.flushdb()

    short, long = (
        [holder.post(path, event).status_code for holder in holders] for path in ("events/", "events/?way=long")
    )

    assert short.count(429) >= 1
    assert long.count(429) >= 2


def test_an_answer_that_holds_a_key_is_shown_again_only_to_the_key_it_was_made_with(acme: Consumer) -> None:
    """Regression: another key of the same owner, about to expire, was shown the key without an end."""
    full = Api(keys.issue(role=Role.CONSUMER, consumer=acme)[1])
    _, short_lived = expiring(acme, minutes=1)
    header = {"Idempotency-Key": "my-key"}

    first, again = (full.post(KEYS, {}, headers=header) for _ in range(2))
    other = short_lived.post(KEYS, {}, headers=header)

    assert (first.content, again["Idempotent-Replayed"]) == (again.content, "true")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")


def test_a_deleted_consumers_keys_are_revoked(acme: Consumer, acme_api: Api) -> None:
    issued(acme_api)
    consumers.delete(acme)
    assert ApiKey.objects.filter(revoked_at__isnull=True).count() == 0
