"""Fair turns among those who have replay jobs running. Pure; replay.py takes the turns.

A party is a consumer, or all operators' jobs that have no consumer. Parties go round one after the other, each with one
turn, and a party's own jobs go round in the same way. So a party waits for at most one turn of each other party, and a
job for as many rounds as its party has jobs, however many jobs the others have and however long they take.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

# The party of jobs that have no consumer.
OPERATORS = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Job:
    """A running job, as far as turns go."""

    id: UUID
    party: UUID
    # When it last had a turn; when it was made, if it has had none.
    turn_at: datetime


class FairTurns:
    """The turns of one tick. Begins with the party after the one that had the last turn of the tick before."""

    def __init__(self, jobs: Iterable[Job], *, after: UUID) -> None:
        self.last_party = after
        self._waiting: dict[UUID, deque[Job]] = {}
        for job in sorted(jobs, key=lambda each: (each.turn_at, each.id)):
            self._waiting.setdefault(job.party, deque()).append(job)
        self._parties = sorted(self._waiting)

    def next(self) -> Job | None:
        """The job whose turn it is, which then waits no more; None when nobody waits."""
        if not self._parties:
            return None
        index = bisect_right(self._parties, self.last_party) % len(self._parties)
        self.last_party = self._parties[index]
        waiting = self._waiting[self.last_party]
        job = waiting.popleft()
        if not waiting:
            self._parties.pop(index)
        return job

    def again(self, job: Job) -> None:
        """It has more to do: behind the others of its party."""
        waiting = self._waiting[job.party]
        if not waiting:
            self._parties.insert(bisect_right(self._parties, job.party), job.party)
        waiting.append(job)
