"""deliveries/sql/arrays.py: what PostgreSQL reads is what was written, and what psycopg itself would have sent."""

from collections.abc import Callable
from datetime import UTC
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deliveries.pump import database
from deliveries.sql import arrays

pytestmark = pytest.mark.django_db

TIMES = st.datetimes(timezones=st.just(UTC))
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
INTS, BIGINTS = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))

KINDS: list[Any] = [
    pytest.param("uuid[]", arrays.uuids, st.uuids(), id="uuids"),
    pytest.param("bytea[]", arrays.byte_strings, st.binary(), id="bytes"),
    pytest.param("int[]", arrays.ints, INTS, id="ints"),
    pytest.param("text[]", arrays.texts, st.none() | TEXTS, id="texts"),
    pytest.param("bigint[]", arrays.bigints, st.none() | BIGINTS, id="bigints"),
    pytest.param("timestamptz[]", arrays.times, st.none() | TIMES, id="times"),
]


@pytest.mark.parametrize(("type", "write", "value"), KINDS)
def test_values_arrive_as_they_were_given(
    type: str, write: Callable[[list[Any]], arrays.Array], value: st.SearchStrategy[Any]
) -> None:
    @settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(value))
    def holds(values: list[Any]) -> None:
        asked = f"SELECT %(ours)s::{type} = %(theirs)s::{type}, array(SELECT unnest(%(ours)s::{type}))"
        with connection.cursor() as cursor:
            cursor.execute(asked, {"ours": write(values), "theirs": values})
            [row] = cursor.fetchall()
        assert row == (True, values)

    holds()


def test_a_connection_of_the_pump_s_knows_them_too() -> None:
    given = [UUID(int=1), UUID(int=(1 << 128) - 1)]
    with psycopg.connect(database.conninfo()) as pump_s:
        [[found]] = pump_s.execute("SELECT %(ids)s::uuid[]", {"ids": arrays.uuids(given)}).fetchall()
    assert found == given
