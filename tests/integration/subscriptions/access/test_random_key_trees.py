"""S14, over random trees of keys: issued, rotated, revoked and expired in any order, by any key that lives."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from subscriptions import consumers, keys
from subscriptions.access import key_rules, key_tree, scopes
from subscriptions.access.caller import Caller
from subscriptions.models import ApiKey, Role
from tests.walk import pass_time

REFUSALS = (key_rules.NotWithinIssuer, key_rules.OutlivesIssuer, key_rules.TooManyKeys, key_tree.KeyEnded)
SCOPES = st.none() | st.sets(st.sampled_from(sorted(scopes.POSSIBLE["consumer"])), min_size=1)
MINUTES = st.none() | st.integers(1, 60)


def ends_in(minutes: int | None) -> datetime | None:
    return None if minutes is None else timezone.now() + timedelta(minutes=minutes)


class KeyTree(RuleBasedStateMachine):
    """Whoever was let in once may still ask later, when its key has ended: as a request under way does."""

    callers: Bundle[Caller] = Bundle("callers")

    @initialize()
    def two_consumers(self) -> None:
        self.consumers = [consumers.create(uid=f"c{number}") for number in range(2)]

    def let_in(self, secret: str) -> Any:
        caller = keys.verify(secret)
        return multiple() if caller is None else caller

    @rule(target=callers, role=st.sampled_from(list(Role)), which=st.integers(0, 1), minutes=MINUTES, names=SCOPES)
    def issue_by_command(self, role: Role, which: int, minutes: int | None, names: set[str] | None) -> Any:
        consumer = self.consumers[which] if role is Role.CONSUMER else None
        with_keys = None if names is None else names | {"keys:write"}
        return self.let_in(keys.issue(role=role, consumer=consumer, expires_at=ends_in(minutes), scopes=with_keys)[1])

    @rule(target=callers, caller=callers, which=st.integers(0, 1), minutes=MINUTES, names=SCOPES)
    def issue_with_a_key(self, caller: Caller, which: int, minutes: int | None, names: set[str] | None) -> Any:
        try:
            key, secret = keys.issue(
                role=Role.CONSUMER,
                consumer=self.consumers[which],
                expires_at=ends_in(minutes),
                scopes=names,
                issued_by=caller,
            )
        except REFUSALS:
            return multiple()
        assert scopes.held(key.role, key.scopes) <= scopes.grantable(caller.role, caller.scopes)
        return self.let_in(secret)

    @rule(target=callers, caller=st.none() | callers, old=callers, overlap=st.sampled_from([0, 600, 604_800]))
    def rotate(self, caller: Caller | None, old: Caller, overlap: int) -> Any:
        before = ApiKey.objects.get(id=old.key_id)
        try:
            rotated = keys.rotate(key_id=old.key_id, overlap_seconds=overlap, by=caller)
        except REFUSALS:
            return multiple()
        if rotated is None:
            return multiple()
        new = rotated.key
        assert (new.role, new.owner, new.scopes, new.expires_at) == (
            before.role,
            before.owner,
            before.scopes,
            before.expires_at,
        )
        if caller is not None and caller.key_id != old.key_id:
            assert scopes.held(new.role, new.scopes) <= scopes.grantable(caller.role, caller.scopes)
        return self.let_in(rotated.secret)

    @rule(caller=callers)
    def revoke(self, caller: Caller) -> None:
        keys.revoke(key_id=caller.key_id)
        assert made_with({caller.key_id}) & living() == set()

    @rule(minutes=st.integers(1, 60))
    def time_passes(self, minutes: int) -> None:
        pass_time(minutes=minutes)

    @invariant()
    def nobody_lives_under_an_ended_key(self) -> None:
        alive = living()
        rows = list(ApiKey.objects.all())
        assert [key for key in rows if key.id in alive and key.issued_by and key.issued_by not in alive] == []

    @invariant()
    def no_child_ends_later_or_may_do_more(self) -> None:
        rows = {key.id: key for key in ApiKey.objects.all()}
        for key in rows.values():
            parent = rows.get(key.issued_by) if key.issued_by else None
            if parent is None:
                continue
            assert parent.expires_at is None or (key.expires_at and key.expires_at <= parent.expires_at)
            assert scopes.held(key.role, key.scopes) <= scopes.grantable(
                parent.role, scopes.held(parent.role, parent.scopes)
            )
            assert key.role == Role.CONSUMER
            assert parent.consumer_id in (None, key.consumer_id)


def living() -> set[Any]:
    return set(key_tree.living().values_list("id", flat=True))


def made_with(key_ids: set[Any]) -> set[Any]:
    """These and all below, by both columns, as a person would follow them."""
    rows = list(ApiKey.objects.all())
    while more := {row.id for row in rows if {row.issued_by, row.rotated_by} & key_ids} - key_ids:
        key_ids = key_ids | more
    return key_ids


@pytest.mark.django_db
def test_s14_no_key_outlives_or_outranks_the_one_that_made_it() -> None:
    class RolledBack(KeyTree):
        def __init__(self) -> None:
            super().__init__()
            self._atomic = transaction.atomic()
            self._atomic.__enter__()

        def teardown(self) -> None:
            transaction.set_rollback(True)
            self._atomic.__exit__(None, None, None)

    run_state_machine_as_test(
        RolledBack,
        settings=settings(
            max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
