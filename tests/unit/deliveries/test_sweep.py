"""deliveries/sweep.py: when a lease that has run out says that its worker is dead."""

from deliveries.sweep import LeaseWatch


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watch(clock: Clock) -> LeaseWatch:
    return LeaseWatch(lease_seconds=10, renew_seconds=2.5, clock=clock)


def test_after_a_start_all_have_the_time_of_a_renewal_first() -> None:
    clock = Clock()
    own = watch(clock)
    assert not own.believes()
    clock.now += 2.5
    assert own.believes()


def test_after_the_database_was_silent_for_half_a_lease_all_have_the_time_of_two_renewals() -> None:
    """Regression: after a freeze longer than the lease, the deliveries of living workers counted as lost."""
    clock = Clock()
    own = watch(clock)
    clock.now += 4
    assert own.believes()

    clock.now += 5.1
    assert not own.believes()
    clock.now += 4
    own.answered()
    assert not own.believes()
    clock.now += 1
    assert own.believes()


def test_a_database_that_answers_is_believed() -> None:
    clock = Clock()
    own = watch(clock)
    for _ in range(10):
        clock.now += 4
        assert own.believes()
