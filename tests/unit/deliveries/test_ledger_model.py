"""The model of claim, settle, lease, sweep, replay, cancel and pause keeps every promise, in all states within bounds.

And it would notice if one did not hold: with any one decision taken out, it tells the shortest story that goes wrong.
"""

import pytest

from tests.ledger_model import REST, Bounds, Broken, Guards, explore

TWO_WORKERS = Bounds(deliveries=2, cap=1, schedule=2)
CLAIM_IN_STEPS = Bounds(deliveries=2, cap=1, schedule=1, claim_in_steps=True)
IN_ORDER = Bounds(deliveries=3, cap=2, schedule=1, ordered=True)
REPLAYED = Bounds(deliveries=1, cap=1, schedule=1, replays=1, pauses=True)
OUT_OF_FILES = Bounds(deliveries=1, cap=1, schedule=2, shortages=2, writes_come_twice=True)
REPLAYED_IN_ORDER = Bounds(deliveries=2, cap=2, schedule=1, ordered=True, replays=1)


@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (TWO_WORKERS, 35_636),
        (CLAIM_IN_STEPS, 4_140),
        (IN_ORDER, 6_048),
        (REPLAYED, 1_328),
        (REPLAYED_IN_ORDER, 11_424),
        (OUT_OF_FILES, 29_884),
    ],
    ids=["two workers", "claim in steps", "in order", "replayed", "replayed in order", "out of files"],
)
def test_every_state_within_bounds_keeps_every_promise(bounds: Bounds, states: int) -> None:
    assert explore(bounds) == states


@pytest.mark.parametrize(
    ("bounds", "missing", "promise"),
    [
        (TWO_WORKERS, "settle_checks_the_number", "each attempt is recorded once"),
        (TWO_WORKERS, "settle_checks_the_state", "each attempt is recorded once"),
        (OUT_OF_FILES, "release_checks_the_due_time", "what is being sent is in flight, unless it was taken for lost"),
        (CLAIM_IN_STEPS, "claim_counts_under_the_lock", "never more in flight than the cap"),
        (TWO_WORKERS, "claim_looks_at_the_cap", "never more in flight than the cap"),
        (TWO_WORKERS, "sweep_runs", REST),
        (IN_ORDER, "settle_lets_the_next_go", "what waits has somebody to wait for"),
        (REPLAYED_IN_ORDER, "replay_waits_behind_a_live_one", "one live delivery per ordering key"),
        (REPLAYED, "cancel_takes_only_what_was_not_sent", "never more attempts than the schedule has"),
    ],
)
def test_a_decision_taken_out_is_noticed(bounds: Bounds, missing: str, promise: str) -> None:
    without = Bounds(**{**vars(bounds), "guards": Guards(**{missing: False})})

    with pytest.raises(Broken) as broken:
        explore(without)

    assert broken.value.promise == promise
