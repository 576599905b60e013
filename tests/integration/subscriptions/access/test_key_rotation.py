"""Rotation of API keys: a new one takes the place of the old, which works on for a while. Nothing gains by it."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from subscriptions import keys
from subscriptions.access import key_tree
from subscriptions.models import ApiKey, Consumer, Role
from tests.conftest import Api
from tests.ledger import ledger
from tests.walk import pass_time

# Committed: a transaction sees one moment, and a key that ends in it would still work in it.
pytestmark = pytest.mark.django_db(transaction=True)

KEYS = "consumers/acme/keys/"


def issued(api: Api, **fields: Any) -> tuple[str, Api]:
    answer = api.post(KEYS, fields)
    assert answer.status_code == 201, answer.json()
    return answer.json()["id"], Api(answer.json()["key"])


def rotated(api: Api, key_id: str, **fields: Any) -> tuple[str, Api]:
    answer = api.post(f"{KEYS}{key_id}/rotate/", fields)
    assert answer.status_code == 201, answer.json()
    return answer.json()["id"], Api(answer.json()["key"])


def works(*holders: Api) -> list[bool]:
    return [holder.get("consumers/acme/").status_code == 200 for holder in holders]


def test_both_keys_work_during_the_overlap_and_one_after_it(producer: Api, acme: Consumer) -> None:
    old_id, old = issued(producer, name="laptop", scopes=["consumers:read", "keys:write"])

    answer = producer.post(f"{KEYS}{old_id}/rotate/", {"overlap_seconds": 3600})

    shown = answer.json()
    new = Api(shown["key"])
    assert (answer.status_code, shown["name"], shown["scopes"]) == (201, "laptop", ["consumers:read", "keys:write"])
    ends_in = datetime.fromisoformat(shown["previous_expires_at"]) - timezone.now()
    assert timedelta(minutes=59) < ends_in <= timedelta(hours=1)
    assert works(old, new) == [True, True]
    pass_time(seconds=3601)
    assert works(old, new) == [False, True]


def test_an_overlap_is_a_day_unless_said_otherwise_and_may_be_none(producer: Api, acme: Consumer) -> None:
    old_id, old = issued(producer)
    _, new = rotated(producer, old_id)
    other_id, other = issued(producer)
    rotated(producer, other_id, overlap_seconds=0)

    assert works(old, other) == [True, False]
    pass_time(hours=23)
    assert works(old) == [True]
    pass_time(hours=2)
    assert works(old, new) == [False, True]


@pytest.mark.parametrize("overlap", [-1, 604_801, "3600", None, 1.5])
def test_an_overlap_that_makes_no_sense_is_refused(producer: Api, acme: Consumer, overlap: Any) -> None:
    old_id, _ = issued(producer)
    before = ledger()
    assert producer.post(f"{KEYS}{old_id}/rotate/", {"overlap_seconds": overlap}).status_code == 400
    assert ledger() == before


def test_a_rotated_key_keeps_its_owner_and_so_its_idempotency_keys(acme: Consumer) -> None:
    key, secret = keys.issue(role=Role.PRODUCER)
    event, header = {"consumer": "acme", "type": "invoice.paid", "data": {}}, {"Idempotency-Key": "4711"}
    first = Api(secret).post("events/", event, headers=header)

    done = keys.rotate(key_id=key.id, overlap_seconds=0)

    assert done is not None
    again = Api(done.secret).post("events/", event, headers=header)
    assert (again.content, again["Idempotent-Replayed"]) == (first.content, "true")


def test_what_the_old_key_made_goes_on_under_the_new_one(producer: Api, acme: Consumer) -> None:
    old_id, old = issued(producer)
    child_id, child = issued(old)
    new_id, _ = rotated(producer, old_id, overlap_seconds=0)
    assert works(old, child) == [False, True]
    assert {key["id"]: key["issued_by"] for key in producer.get(KEYS).json()["results"]}[child_id] == new_id

    producer.delete(f"{KEYS}{new_id}/")

    assert works(child) == [False]


def test_the_old_key_can_be_revoked_before_the_overlap_ends(producer: Api, acme: Consumer) -> None:
    old_id, old = issued(producer)
    _, new = rotated(producer, old_id)
    assert producer.delete(f"{KEYS}{old_id}/").status_code == 204
    assert works(old, new) == [False, True]


def test_a_key_rotates_itself_and_the_new_one_ends_the_overlap(producer: Api, acme: Consumer) -> None:
    old_id, old = issued(producer)
    _, new = rotated(old, old_id)

    assert new.delete(f"{KEYS}{old_id}/").status_code == 204

    assert works(old, new) == [False, True]


@pytest.mark.parametrize("overlap", [0, 3600])
def test_s14_a_stolen_key_does_not_escape_its_revocation_by_rotating_itself(
    producer: Api, acme: Consumer, overlap: int
) -> None:
    stolen_id, stolen = issued(producer)
    second_id, second = rotated(stolen, stolen_id, overlap_seconds=overlap)
    _, third = rotated(second, second_id, overlap_seconds=overlap)
    _, child = issued(third)

    assert producer.delete(f"{KEYS}{stolen_id}/").status_code == 204

    assert works(stolen, second, third, child) == [False] * 4


def test_s14_a_stolen_producer_does_not_keep_a_consumers_key_that_it_rotated(acme: Consumer) -> None:
    stolen, secret = keys.issue(role=Role.PRODUCER)
    theirs, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    _, taken = rotated(Api(secret), theirs.public_id)

    keys.revoke(key_id=stolen.id)

    assert works(taken) == [False]


def test_s14_a_key_gains_no_time_by_being_rotated(acme: Consumer) -> None:
    ends_at = timezone.now() + timedelta(minutes=1)
    key, secret = keys.issue(role=Role.CONSUMER, consumer=acme, expires_at=ends_at)

    shown = Api(secret).post(f"{KEYS}{key.public_id}/rotate/").json()

    assert [datetime.fromisoformat(shown[name]) for name in ("expires_at", "previous_expires_at")] == [ends_at, ends_at]


def test_s14_a_key_that_ends_sooner_cannot_rotate_one_that_lives_longer(acme: Consumer) -> None:
    longer, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    in_a_minute = timezone.now() + timedelta(minutes=1)
    short_lived = Api(keys.issue(role=Role.CONSUMER, consumer=acme, expires_at=in_a_minute)[1])
    works(short_lived)
    before = ledger()

    answer = short_lived.post(f"{KEYS}{longer.public_id}/rotate/")

    assert (answer.status_code, answer.json()["code"], ledger()) == (403, "forbidden", before)


def test_s14_a_narrow_key_cannot_rotate_a_wider_one_and_receive_it(acme: Consumer) -> None:
    wide, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    narrow = Api(keys.issue(role=Role.CONSUMER, consumer=acme, scopes=["keys:write", "events:read"])[1])

    answer = narrow.post(f"{KEYS}{wide.public_id}/rotate/")

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "attempts:read" in answer.json()["detail"]


def test_a_key_that_does_not_live_is_not_rotated(producer: Api, acme: Consumer) -> None:
    key_id, _ = issued(producer)
    producer.delete(f"{KEYS}{key_id}/")
    answers = [producer.post(f"{KEYS}{name}/rotate/") for name in (key_id, "nonsense")]
    assert [answer.json()["code"] for answer in answers] == ["not_found", "not_found"]


def test_s14_rotations_count_towards_the_cap(producer: Api, acme: Consumer, settings: Any) -> None:
    settings.MAX_KEYS_PER_CONSUMER = 1
    key_id, _ = issued(producer)

    refused = producer.post(f"{KEYS}{key_id}/rotate/", {"overlap_seconds": 60})

    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_keys")
    assert works(rotated(producer, key_id, overlap_seconds=0)[1]) == [True]


def test_a_rotation_asked_for_twice_happens_once(producer: Api, acme: Consumer) -> None:
    key_id, _ = issued(producer)
    header = {"Idempotency-Key": "rotate-1"}
    first, again = (producer.post(f"{KEYS}{key_id}/rotate/", {}, headers=header) for _ in range(2))
    assert (first.content, ApiKey.objects.filter(consumer=acme).count()) == (again.content, 2)


def test_s14_a_rotated_key_is_still_found_by_who_made_it_when_those_between_are_forgotten(acme: Consumer) -> None:
    maker, secret = keys.issue(role=Role.PRODUCER)
    key, _ = keys.issue(role=Role.CONSUMER, consumer=acme)
    key_id, holder = rotated(Api(secret), key.public_id)
    for _ in range(3):
        key_id, holder = rotated(holder, key_id)
    pass_time(days=100)
    assert key_tree.forget_old(days=90, batch=2) == 4

    keys.revoke(key_id=maker.id)

    assert works(holder) == [False]


def test_s14_a_thief_does_not_leave_by_rotating_a_key_and_revoking_it(acme: Consumer) -> None:
    stolen, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    taken = keys.rotate(key_id=stolen.id, consumer=acme, overlap_seconds=0, by=keys.verify(secret))
    assert taken is not None
    keys.revoke(key_id=stolen.id, consumer=acme, by=keys.verify(taken.secret))
    assert keys.verify(taken.secret) is not None

    assert keys.revoke(key_id=stolen.id) == 1

    assert keys.verify(taken.secret) is None


def test_revoking_the_first_of_several_rotations_spares_the_key_that_asks(acme: Consumer) -> None:
    first, secret = keys.issue(role=Role.CONSUMER, consumer=acme)
    second = keys.rotate(key_id=first.id, consumer=acme, overlap_seconds=60, by=keys.verify(secret))
    assert second is not None
    third = keys.rotate(key_id=second.key.id, consumer=acme, overlap_seconds=60, by=keys.verify(second.secret))
    assert third is not None

    keys.revoke(key_id=first.id, consumer=acme, by=keys.verify(third.secret))

    assert keys.verify(third.secret) is not None
