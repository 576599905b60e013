"""deliveries/replaying/fair_turns.py: whoever has jobs, however many, has one turn in each round."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from deliveries.replaying.fair_turns import OPERATORS, FairTurns, Job

START = datetime(2026, 1, 1, tzinfo=UTC)


def job(number: int, party: int, *, turn: int = 0) -> Job:
    return Job(id=UUID(int=number), party=UUID(int=party), turn_at=START + timedelta(seconds=turn))


def run(turns: FairTurns, count: int) -> Iterator[Job]:
    """So many turns of jobs that never come to their end."""
    for _ in range(count):
        taken = turns.next()
        if taken is None:
            return
        yield taken
        turns.again(taken)


def test_one_job_beside_a_hundred_and_twenty_of_somebody_else_has_every_second_turn() -> None:
    turns = FairTurns([job(n, party=1) for n in range(120)] + [job(999, party=2)], after=OPERATORS)
    assert [taken.party.int for taken in run(turns, 6)] == [1, 2, 1, 2, 1, 2]


def test_a_party_s_own_jobs_go_round_beginning_with_the_one_that_has_waited_longest() -> None:
    turns = FairTurns([job(1, party=1, turn=5), job(2, party=1, turn=3), job(3, party=1, turn=4)], after=OPERATORS)
    assert [taken.id.int for taken in run(turns, 5)] == [2, 3, 1, 2, 3]


def test_the_next_tick_begins_with_the_party_after_the_last_one() -> None:
    jobs = [job(1, party=1), job(2, party=2), job(3, party=3)]
    first = FairTurns(jobs, after=OPERATORS)
    assert [taken.party.int for taken in run(first, 2)] == [1, 2]
    assert [taken.party.int for taken in run(FairTurns(jobs, after=first.last_party), 2)] == [3, 1]


def test_operators_jobs_without_a_consumer_are_one_party() -> None:
    turns = FairTurns([job(n, party=0) for n in range(9)] + [job(99, party=7)], after=OPERATORS)
    assert Counter(taken.party for taken in run(turns, 8)) == {OPERATORS: 4, UUID(int=7): 4}


def test_nobody_waits_when_every_job_has_had_enough() -> None:
    turns = FairTurns([job(1, party=1), job(2, party=2)], after=UUID(int=1))
    assert [taken.id.int for taken in iter(turns.next, None)] == [2, 1]
    assert turns.next() is None


ARRIVALS = st.lists(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), max_size=4), min_size=1, max_size=25)


@given(arrivals=ARRIVALS, turns_per_tick=st.integers(1, 7))
def test_no_party_and_no_job_waits_longer_than_the_rule_says(
    arrivals: list[list[tuple[int, int]]], turns_per_tick: int
) -> None:
    """Jobs come at every tick, each of a party and in need of so many turns; a tick ends after so many turns.

    Between two turns of a waiting party every other party has one turn at most. A job has its turn after at most as
    many turns of its party as that party had jobs when it came.
    """
    running: dict[UUID, Job] = {}
    needs: dict[UUID, int] = {}
    allowed: dict[UUID, int] = {}
    since_turn: dict[UUID, Counter[UUID]] = {}
    last, clock, number = OPERATORS, 0, 0
    for tick in range(len(arrivals) + 200):
        for party, need in arrivals[tick] if tick < len(arrivals) else []:
            clock, number = clock + 1, number + 1
            made = job(number, party, turn=clock)
            running[made.id], needs[made.id] = made, need
            allowed[made.id] = sum(other.party == made.party for other in running.values())
            since_turn.setdefault(made.party, Counter())
        turns = FairTurns(running.values(), after=last)
        for _ in range(turns_per_tick):
            taken = turns.next()
            if taken is None:
                break
            clock += 1
            for waits, others in since_turn.items():
                others[taken.party] += waits != taken.party
            assert max(since_turn[taken.party].values(), default=0) <= 1
            since_turn[taken.party].clear()
            for other in running.values():
                if other.party == taken.party and other.id != taken.id:
                    allowed[other.id] -= 1
                    assert allowed[other.id] >= 0
            needs[taken.id] -= 1
            running[taken.id] = job(taken.id.int, taken.party.int, turn=clock)
            allowed[taken.id] = sum(other.party == taken.party for other in running.values())
            if needs[taken.id]:
                turns.again(running[taken.id])
            else:
                del running[taken.id]
                if not any(other.party == taken.party for other in running.values()):
                    del since_turn[taken.party]
        last = turns.last_party
    assert running == {}
