"""A model of the ledger, small enough to read: who may move a delivery, and what two workers can do to each other.

    explore(Bounds(...))  # every state that can be reached, or the shortest story that breaks a promise

A state is a tuple of plain values and each rule below is one statement of the product: claim.py (lock the lane, count,
take), settle.py (guarded by state and attempt number), pump/release.py (what could not be sent goes back with its
number), sweep.py (expired leases), replay.py (a new round, and taking it back), lifecycle.py (pause, resume). What the
model leaves out: time, health, rate limits, more than one endpoint.

`Guards` are the product's decisions, one by one. With any of them taken out, `explore` finds a story that breaks a
promise: tests/unit/deliveries/test_ledger_model.py holds both.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

PENDING, IN_FLIGHT, DELIVERED, DEAD = "pending", "in_flight", "delivered", "dead"
FINISHED = (DELIVERED, DEAD)
NOBODY = -1  # whoever held it has died, and a new lease has another id


class Delivery(NamedTuple):
    """A row of the table. `recorded` are the numbers of attempts that were written down."""

    state: str = PENDING
    attempt_count: int = 0
    base: int = 0
    leased_by: int | None = None
    blocked: bool = False
    recorded: tuple[int, ...] = ()
    # What a replay job changed, so that cancelling it can take that back: the state and the base before.
    put_back: tuple[str, int] | None = None
    was_answered: bool = False  # the receiver has answered 2xx at least once
    due: int = 0  # its due time: another one each time it goes back unsent


class Held(NamedTuple):
    """What a worker holds in memory of a delivery it claimed."""

    place: int
    number: int
    answer: bool | None = None  # None while the request is under way
    due: int = 0
    is_unsent: bool = False  # the machine is out of files, for example: there will be no answer
    is_lost: bool = False  # the sweep has put it back, and the worker does not know


class Worker(NamedTuple):
    lease_is_alive: bool = True
    held: frozenset[Held] = frozenset()
    # A claim under way: whether it has the lane's lock, and the room it has counted.
    has_lock: bool = False
    room: int | None = None


class State(NamedTuple):
    deliveries: tuple[Delivery, ...]
    workers: tuple[Worker, ...]
    paused: bool = False
    replays: int = 0
    shortages: int = 0


@dataclass(frozen=True)
class Guards:
    """Each is a decision of the product. False takes it out."""

    settle_checks_the_number: bool = True
    settle_checks_the_state: bool = True
    release_checks_the_due_time: bool = True
    claim_counts_under_the_lock: bool = True
    claim_looks_at_the_cap: bool = True
    sweep_runs: bool = True
    settle_lets_the_next_go: bool = True
    replay_waits_behind_a_live_one: bool = True
    cancel_takes_only_what_was_not_sent: bool = True


@dataclass(frozen=True)
class Bounds:
    deliveries: int = 2
    workers: int = 2
    cap: int = 1
    schedule: int = 2  # attempts per round
    ordered: bool = False  # all deliveries share one ordering key
    replays: int = 0
    pauses: bool = False
    shortages: int = 0  # so often a claimed delivery cannot be sent
    # Whether the database's answer to a write may get lost, so that its worker writes again.
    writes_come_twice: bool = False
    # Whether others may act between a claim's lock, its count and its taking. If not, there are far fewer states.
    claim_in_steps: bool = False
    guards: Guards = field(default_factory=Guards)


class Broken(Exception):
    """A promise was broken. The story is the shortest one that leads there."""

    def __init__(self, promise: str, story: list[str]) -> None:
        super().__init__(f"{promise}: {' → '.join(story)}")
        self.promise = promise
        self.story = story


Step = tuple[str, State]


def explore(bounds: Bounds) -> int:
    """The number of states reached. Raises `Broken` where a state breaks a promise, or cannot come to rest."""
    start = State(
        tuple(Delivery(blocked=bounds.ordered and place > 0) for place in range(bounds.deliveries)),
        (Worker(),) * bounds.workers,
    )
    came_from: dict[State, tuple[State | None, str]] = {start: (None, "start")}
    leads_to: dict[State, list[State]] = {}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for promise, holds in PROMISES:
            if not holds(state, bounds):
                raise Broken(promise, _story(state, came_from))
        leads_to[state] = []
        for name, following in _steps(state, bounds):
            leads_to[state].append(following)
            if following not in came_from:
                came_from[following] = (state, name)
                waiting.append(following)
    _check_rest(leads_to, came_from)
    return len(came_from)


def _steps(state: State, bounds: Bounds) -> Iterator[Step]:
    for place in range(bounds.workers):
        yield from _claim(state, bounds, place)
        yield from _answer(state, place)
        yield from _settle(state, bounds, place)
        yield from _release(state, bounds, place)
        yield from _lease(state, place)
    yield from _sweep(state, bounds)
    yield from _replay(state, bounds)
    yield from _cancel(state, bounds)
    if bounds.pauses:
        yield ("resume" if state.paused else "pause", state._replace(paused=not state.paused))


# ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _claim(state: State, bounds: Bounds, place: int) -> Iterator[Step]:
    """Lock the lane, count what is in flight, take one due delivery. A claim that finds nothing lets go again."""
    worker = state.workers[place]
    if not bounds.claim_in_steps:
        if worker.lease_is_alive:
            yield from _take(state, bounds, place, room=_room(state, bounds))
        return
    lock_is_free = not any(other.has_lock for other in state.workers)
    may_count = worker.has_lock or not bounds.guards.claim_counts_under_the_lock
    if not worker.has_lock and lock_is_free:
        yield f"w{place} locks the lane", _with_worker(state, place, worker._replace(has_lock=True))
    if may_count and worker.room is None and worker.lease_is_alive:
        counted = worker._replace(room=_room(state, bounds))
        yield f"w{place} counts", _with_worker(state, place, counted)
    if worker.has_lock and worker.room is not None:
        yield from _take(state, bounds, place, room=worker.room)


def _room(state: State, bounds: Bounds) -> int:
    return bounds.cap - sum(each.state == IN_FLIGHT for each in state.deliveries)


def _take(state: State, bounds: Bounds, place: int, *, room: int) -> Iterator[Step]:
    worker = state.workers[place]
    idle = worker._replace(has_lock=False, room=None)
    due = [number for number, each in enumerate(state.deliveries) if each.state == PENDING and not each.blocked]
    if state.paused or not due or (room < 1 and bounds.guards.claim_looks_at_the_cap):
        yield f"w{place} finds nothing", _with_worker(state, place, idle)
        return
    taken = state.deliveries[due[0]]
    row = taken._replace(state=IN_FLIGHT, attempt_count=taken.attempt_count + 1, leased_by=place)
    held = idle._replace(held=worker.held | {Held(due[0], row.attempt_count, due=row.due)})
    yield f"w{place} claims d{due[0]}", _with_worker(_with_row(state, due[0], row), place, held)


def _answer(state: State, place: int) -> Iterator[Step]:
    """The receiver answers; the worker knows it and has written nothing yet."""
    worker = state.workers[place]
    for held in worker.held:
        if held.answer is None and not held.is_unsent:
            for answer, word in ((True, "2xx"), (False, "500")):
                knows = worker._replace(held=worker.held - {held} | {held._replace(answer=answer)})
                row = state.deliveries[held.place]
                answered = _with_row(state, held.place, row._replace(was_answered=row.was_answered or answer))
                yield f"d{held.place} is answered {word}", _with_worker(answered, place, knows)


def _settle(state: State, bounds: Bounds, place: int) -> Iterator[Step]:
    """Also the late settlement of a worker that was away: only the guard tells the two apart."""
    worker = state.workers[place]
    for held in worker.held:
        if held.answer is None:
            continue
        row = state.deliveries[held.place]
        right_state = row.state == IN_FLIGHT or not bounds.guards.settle_checks_the_state
        right_number = row.attempt_count == held.number or not bounds.guards.settle_checks_the_number
        written = state
        if right_state and right_number:
            written = _moved(state, bounds, held.place, number=held.number, answer=held.answer)
        yield from _done(written, bounds, place, held, f"w{place} settles d{held.place}")


def _release(state: State, bounds: Bounds, place: int) -> Iterator[Step]:
    """What cannot be sent goes back as if it had never been claimed, number and all."""
    worker = state.workers[place]
    for held in worker.held:
        row = state.deliveries[held.place]
        if held.answer is None and not held.is_unsent and state.shortages < bounds.shortages:
            unsent = worker._replace(held=worker.held - {held} | {held._replace(is_unsent=True)})
            short = _with_worker(state, place, unsent)._replace(shortages=state.shortages + 1)
            yield f"w{place} cannot send d{held.place}", short
        if held.is_unsent:
            is_this_claim = row.due == held.due or not bounds.guards.release_checks_the_due_time
            written = state
            if row.state == IN_FLIGHT and row.attempt_count == held.number and is_this_claim:
                back = row._replace(state=PENDING, attempt_count=row.attempt_count - 1, leased_by=None, due=row.due + 1)
                written = _with_row(state, held.place, back)
            yield from _done(written, bounds, place, held, f"w{place} gives d{held.place} back")


def _done(state: State, bounds: Bounds, place: int, held: Held, name: str) -> Iterator[Step]:
    """The worker forgets what it has written, once it knows that it has."""
    worker = state.workers[place]
    yield name, _with_worker(state, place, worker._replace(held=worker.held - {held}))
    if bounds.writes_come_twice:
        yield f"{name} and does not hear of it", state


def _lease(state: State, place: int) -> Iterator[Step]:
    """A lease runs out while its worker still works; it is renewed; or the worker dies and another takes its place."""
    worker = state.workers[place]
    changed = worker._replace(lease_is_alive=not worker.lease_is_alive)
    yield f"w{place}'s lease {'ends' if worker.lease_is_alive else 'is renewed'}", _with_worker(state, place, changed)
    orphaned = tuple(row._replace(leased_by=NOBODY) if row.leased_by == place else row for row in state.deliveries)
    yield f"w{place} dies", _with_worker(state._replace(deliveries=orphaned), place, Worker())


def _sweep(state: State, bounds: Bounds) -> Iterator[Step]:
    """One lost delivery at a time; the product takes many, one after the other."""
    if not bounds.guards.sweep_runs:
        return
    for place, row in enumerate(state.deliveries):
        holder = row.leased_by
        is_lost = holder == NOBODY or (holder is not None and not state.workers[holder].lease_is_alive)
        if row.state == IN_FLIGHT and is_lost:
            swept = _moved(state, bounds, place, number=row.attempt_count, answer=False)
            yield f"the sweep finds d{place}", swept._replace(workers=_unknowing(state, place, row))


def _unknowing(state: State, place: int, row: Delivery) -> tuple[Worker, ...]:
    """The workers, one of which may still hold what the sweep has just put back."""
    this = (place, row.attempt_count, row.due)
    return tuple(
        worker._replace(
            held=frozenset(
                held._replace(is_lost=True) if (held.place, held.number, held.due) == this else held
                for held in worker.held
            )
        )
        for worker in state.workers
    )


def _replay(state: State, bounds: Bounds) -> Iterator[Step]:
    if state.replays >= bounds.replays:
        return
    for place, row in enumerate(state.deliveries):
        if row.state in FINISHED:
            waits = bounds.ordered and bounds.guards.replay_waits_behind_a_live_one and _has_head(state)
            again = row._replace(state=PENDING, base=row.attempt_count, blocked=waits, put_back=(row.state, row.base))
            yield f"d{place} is replayed", _with_row(state, place, again)._replace(replays=state.replays + 1)


def _cancel(state: State, bounds: Bounds) -> Iterator[Step]:
    for place, row in enumerate(state.deliveries):
        was_not_sent = row.state == PENDING and row.attempt_count == row.base
        if row.put_back and (was_not_sent or not bounds.guards.cancel_takes_only_what_was_not_sent):
            old_state, old_base = row.put_back
            before = row._replace(state=old_state, base=old_base, put_back=None, blocked=False, leased_by=None)
            cancelled = _with_row(state, place, before)
            yield f"d{place}'s replay is cancelled", cancelled if row.blocked else _let_next_go(cancelled, bounds)


def _moved(state: State, bounds: Bounds, place: int, *, number: int, answer: bool) -> State:
    row = state.deliveries[place]
    is_last = number - row.base >= bounds.schedule
    following = DELIVERED if answer else DEAD if is_last else PENDING
    settled = row._replace(state=following, leased_by=None, recorded=(*row.recorded, number))
    if following in FINISHED:
        return _let_next_go(_with_row(state, place, settled._replace(put_back=None)), bounds)
    return _with_row(state, place, settled)


def _let_next_go(state: State, bounds: Bounds) -> State:
    if not bounds.ordered or not bounds.guards.settle_lets_the_next_go:
        return state
    for place, row in enumerate(state.deliveries):
        if row.blocked:
            return _with_row(state, place, row._replace(blocked=False))
    return state


def _has_head(state: State) -> bool:
    return any(row.state not in FINISHED and not row.blocked for row in state.deliveries)


def _with_row(state: State, place: int, row: Delivery) -> State:
    rows = state.deliveries
    return state._replace(deliveries=(*rows[:place], row, *rows[place + 1 :]))


def _with_worker(state: State, place: int, worker: Worker) -> State:
    workers = state.workers
    return state._replace(workers=(*workers[:place], worker, *workers[place + 1 :]))


# ── the promises ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _leased_while_in_flight(state: State, bounds: Bounds) -> bool:
    return all((row.state == IN_FLIGHT) == (row.leased_by is not None) for row in state.deliveries)


def _within_the_cap(state: State, bounds: Bounds) -> bool:
    return sum(row.state == IN_FLIGHT for row in state.deliveries) <= bounds.cap


def _within_the_schedule(state: State, bounds: Bounds) -> bool:
    return all(row.attempt_count - row.base <= bounds.schedule for row in state.deliveries)


def _each_attempt_recorded_once(state: State, bounds: Bounds) -> bool:
    return all(len(set(row.recorded)) == len(row.recorded) for row in state.deliveries)


def _finished_has_all_attempts(state: State, bounds: Bounds) -> bool:
    return all(len(row.recorded) == row.attempt_count for row in state.deliveries if row.state != IN_FLIGHT)


def _delivered_was_answered(state: State, bounds: Bounds) -> bool:
    return all(row.was_answered for row in state.deliveries if row.state == DELIVERED)


def _sent_means_in_flight(state: State, bounds: Bounds) -> bool:
    """Or else another worker could send it at the same time, beyond the cap and out of order."""
    return all(
        row.state == IN_FLIGHT and (row.attempt_count, row.due) == (held.number, held.due)
        for worker in state.workers
        for held in worker.held
        if held.answer is None and not held.is_unsent and not held.is_lost
        for row in [state.deliveries[held.place]]
    )


def _one_live_head_per_key(state: State, bounds: Bounds) -> bool:
    heads = sum(row.state not in FINISHED and not row.blocked for row in state.deliveries)
    return not bounds.ordered or heads <= 1


def _nobody_waits_behind_nobody(state: State, bounds: Bounds) -> bool:
    return not any(row.blocked for row in state.deliveries) or _has_head(state)


def _sequence_is_kept(state: State, bounds: Bounds) -> bool:
    """In its first round a delivery is sent only after those before it are delivered or dead."""
    rows = state.deliveries
    return not bounds.ordered or not any(
        later.attempt_count > 0 and earlier.base == 0 and earlier.state not in FINISHED
        for place, earlier in enumerate(rows)
        for later in rows[place + 1 :]
    )


PROMISES: tuple[tuple[str, Callable[[State, Bounds], bool]], ...] = (
    ("in flight means leased", _leased_while_in_flight),
    ("never more in flight than the cap", _within_the_cap),
    ("never more attempts than the schedule has", _within_the_schedule),
    ("each attempt is recorded once", _each_attempt_recorded_once),
    ("every attempt is recorded before the next begins", _finished_has_all_attempts),
    ("delivered means that the receiver said so", _delivered_was_answered),
    ("one live delivery per ordering key", _one_live_head_per_key),
    ("what waits has somebody to wait for", _nobody_waits_behind_nobody),
    ("each key's deliveries go in sequence", _sequence_is_kept),
    ("what is being sent is in flight, unless it was taken for lost", _sent_means_in_flight),
)
REST = "whatever was accepted can still be delivered or become a dead letter"


def _check_rest(leads_to: dict[State, list[State]], came_from: dict[State, tuple[State | None, str]]) -> None:
    """From every state there is a way to one where all deliveries are finished: nothing is ever stuck."""
    comes_from: dict[State, list[State]] = {state: [] for state in leads_to}
    for state, following in leads_to.items():
        for each in following:
            comes_from[each].append(state)
    at_rest = [state for state in leads_to if all(row.state in FINISHED for row in state.deliveries)]
    good, waiting = set(at_rest), deque(at_rest)
    while waiting:
        for before in comes_from[waiting.popleft()]:
            if before not in good:
                good.add(before)
                waiting.append(before)
    for state in leads_to:  # in the order of their distance from the start
        if state not in good:
            raise Broken(REST, _story(state, came_from))


def _story(state: State, came_from: dict[State, tuple[State | None, str]]) -> list[str]:
    story = []
    before: State | None = state
    while before is not None:
        before, name = came_from[before]
        story.append(name)
    return story[-2::-1]
