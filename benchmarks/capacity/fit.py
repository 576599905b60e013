"""What each step costs, from the measures: for a row, and for the statement that it shares with others. Pure.

Costs come from two ends. In a full drain a statement is shared by hundreds, at some hundred events a second by a few:
the line through the two says what a row costs and what a statement does. Not from a trickle: there each event also pays
for caches that went cold, which no busy system does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CLAIM = ("claim.LOCK_LANES", "claim.CLAIM_DUE", "claim.FIND_CLOSED")
SETTLE = ("settle.SETTLE",)
# Under the name of its file today, and of the one it had in older results.
STORE = ("insert.STORE_PLAIN_IF_STILL_TRUE", "store.STORE_PLAIN_IF_STILL_TRUE")


@dataclass(frozen=True, slots=True)
class CpuCost:
    """Seconds of CPU, for each row and for each statement."""

    each: float
    statement: float


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of CPU."""

    request: float
    accept: CpuCost  # in a web process, beside the request's own
    store: CpuCost
    ring: float
    hear: float
    claim: CpuCost
    settle: CpuCost
    # In a worker: for each delivery, for each claim and for each settlement.
    deliver: float
    claiming: float
    settling: float
    producer: float
    receiver: float


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds in which nobody works."""

    bell_gather: float
    pump_gather: float
    settle_gather: float
    # Before an endpoint is asked for again that another pump was claiming for.
    passed_over: float
    # Until WAL is on the disk.
    flush: float
    # A receiver's own time.
    answer: float = 0.0


@dataclass(frozen=True, slots=True)
class Model:
    times: Times
    waits: Waits
    slots: int


def model(measures: Mapping[str, Any]) -> Model:
    """From the measures; the profile says how many statements there were, and what an event costs in small company."""
    profile, waits = measures["profile"], measures["profile"]["waits"]
    few, drained = profile["more"], profile["deliver"]
    full = _seconds(measures["deliver"]["one"]["cpu_ms"])
    single, batch = (_seconds(measures["emit"][side]["cpu_ms"]) for side in ("single", "batch"))
    each = {part: milliseconds / 1000 for part, milliseconds in few["cpu_ms"].items()}
    store, claim, settle = _shares(few, STORE, CLAIM, SETTLE)
    claim_full, settle_full = _shares(drained, CLAIM, SETTLE)
    web = line((few["stores"], each["web"]), (profile["emit"]["single"]["stores"], single["web"]))
    # Of a batch of a hundred, a hundredth of the request falls to each event.
    stores = profile["emit"]["batch"]["stores"]
    event = max(0.0, (batch["web"] - web.each / 100 - web.statement * stores) / 0.99)
    pairs = [(side["claims"] + side["settlements"]) / 2 for side in (few, drained)]
    worker = line((pairs[0], each["worker"]), (pairs[1], full["worker"]))
    redis = each["redis"] / (few["stores"] + few["claims"])
    times = Times(
        request=max(0.0, web.each - event),
        accept=CpuCost(event, web.statement),
        store=line((few["stores"], store * each["postgres"]), (stores, batch["postgres"])),
        # One question to Redis is taken to be as dear as another.
        ring=redis,
        hear=redis,
        claim=line((few["claims"], claim * each["postgres"]), (drained["claims"], claim_full * full["postgres"])),
        settle=line(
            (few["settlements"], settle * each["postgres"]), (drained["settlements"], settle_full * full["postgres"])
        ),
        deliver=worker.each,
        # Which of the two is dearer for a worker, nobody has measured.
        claiming=worker.statement / 2,
        settling=worker.statement / 2,
        producer=measures["emit"]["single"]["load_cpu_ms"]["median"] / 1000,
        receiver=full["receiver"],
    )
    names = ("bell_gather", "pump_gather", "settle_gather", "passed_over")
    return Model(times, Waits(**{name: waits[name] for name in names}, flush=few["flush_ms"] / 1000), waits["slots"])


def _seconds(cpu_ms: Mapping[str, Any]) -> dict[str, float]:
    return {part: float(figure["median"]) / 1000 for part, figure in cpu_ms.items()}


def _shares(side: Mapping[str, Any], *groups: Sequence[str]) -> list[float]:
    """How these groups of statements share PostgreSQL's time between them."""
    sums = [sum(float(one["share"]) for one in side["statements"] if one["name"] in names) for names in groups]
    return [one / sum(sums) for one in sums]


def line(few: tuple[float, float], many: tuple[float, float]) -> CpuCost:
    """Each point is statements per row, and what a row cost then. No row is cheaper than nothing."""
    statement = max(0.0, (few[1] - many[1]) / (few[0] - many[0]))
    return CpuCost(each=max(0.0, many[1] - statement * many[0]), statement=statement)
