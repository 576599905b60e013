"""subscriptions/limits/answer_deadline.py: statements to a server that hangs, held by a lock instead of a signal."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from deliveries.pump import database
from subscriptions.limits.answer_deadline import (
    AsyncBoundedConnection,
    BoundedConnection,
    Deadline,
    NoAnswer,
    deadline,
)
from tests.servers import needs_session

pytestmark = [pytest.mark.django_db(transaction=True), needs_session]

# Waits for ever: nobody answers, as a frozen server does.
HANG = "SELECT pg_advisory_lock(4711)"


@pytest.fixture
def held() -> Iterator[None]:
    """Whoever asks for the lock hangs."""
    with psycopg.connect(database.conninfo(), autocommit=True) as holder:
        holder.execute(HANG)
        yield


@pytest.fixture
def own_deadline() -> Iterator[Deadline]:
    """This process's, as it was when the test is over."""
    yield deadline
    deadline.seconds = None
    deadline.kept()


def bounded() -> psycopg.Connection:
    return BoundedConnection.connect(database.conninfo(), autocommit=True, options="-c lock_timeout=60000")


def test_a_statement_without_an_answer_ends_in_time_and_its_connection_with_it(
    held: None, own_deadline: Deadline
) -> None:
    """Regression: while PostgreSQL was frozen, callers waited until they gave up."""
    own_deadline.seconds = 0.2
    connection = bounded()

    with pytest.raises(NoAnswer):
        connection.execute(HANG)

    assert connection.closed


def test_until_one_is_answered_again_the_others_wait_for_a_moment_only(held: None, own_deadline: Deadline) -> None:
    own_deadline.seconds = 3600
    own_deadline.missed()
    assert own_deadline.left() == 1

    with bounded() as connection:
        connection.execute("SELECT 1")

    assert own_deadline.left() == 3600


def test_without_a_limit_a_statement_takes_as_long_as_it_likes(held: None, own_deadline: Deadline) -> None:
    own_deadline.missed()
    assert own_deadline.left() is None
    with bounded() as connection, pytest.raises(LockNotAvailable):
        connection.execute("SET lock_timeout = 200")
        connection.execute(HANG)


def test_after_a_connection_was_waited_for_in_vain_the_next_one_hears_at_once() -> None:
    own = Deadline(quick_seconds=0)  # every refusal took longer than that
    own.seconds = 8
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        own.connect(conninfo=database.conninfo(), dbname="none")

    with pytest.raises(NoAnswer):
        own.connect(conninfo=database.conninfo())


def test_after_a_quick_refusal_the_next_one_may_find_the_server_back() -> None:
    """Regression: for half a second after PostgreSQL was back, a process went on answering 503."""
    own = Deadline(quick_seconds=3600)
    own.seconds = 8
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        own.connect(conninfo=database.conninfo(), dbname="none")

    with own.connect(conninfo=database.conninfo()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_pumps_statement_without_an_answer_ends_in_time(held: None) -> None:
    async def main() -> None:
        own = await AsyncBoundedConnection.connect(database.conninfo(), **database.session())
        own.answer_seconds = 0.2
        await own.execute("SET lock_timeout = 60000")
        with pytest.raises(NoAnswer):
            await own.execute(HANG)
        assert own.closed

    asyncio.run(main())


def test_who_borrows_a_pumps_connection_for_less_time_waits_no_longer_and_leaves_its_limit_as_it_was(
    held: None,
) -> None:
    """Regression: the renewal of a lease waited for as long as the lease lasts."""

    async def main() -> None:
        async with database.new_pool() as pool:
            async with database.borrow(pool, seconds=0.2) as own:
                await own.execute("SELECT 1")
            async with database.borrow(pool) as same:
                assert same is own
                assert same.answer_seconds == AsyncBoundedConnection.answer_seconds  # type: ignore[attr-defined]
            with pytest.raises(NoAnswer):
                async with database.borrow(pool, seconds=0.2) as own:
                    await own.execute("SET lock_timeout = 60000")
                    await own.execute(HANG)

    asyncio.run(main())


def test_management_commands_and_migrations_have_no_limit() -> None:
    assert deadline.left() is None
