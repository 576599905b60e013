"""webhooks_platform/web/lasting_granian.py: how many deaths of workers are a crash loop."""

from webhooks_platform.web.lasting_granian import Deaths


def test_two_quick_deaths_of_a_worker_are_no_crash_loop() -> None:
    """Regression: they took the whole web server down."""
    deaths = Deaths()
    for at in (1000.0, 1001.0, 1002.0):
        deaths.clear()
        deaths[0] = at

    assert deaths.get(0, 0) == 0


def test_ten_deaths_within_half_a_minute_are_one() -> None:
    deaths = Deaths()
    for number in range(10):
        deaths.clear()
        deaths[number % 2] = 1000.0 + number

    assert (deaths.get(0, 0), deaths.get(1, 0)) == (1008.0, 1009.0)


def test_ten_deaths_within_an_hour_are_none() -> None:
    deaths = Deaths()
    for number in range(10):
        deaths[0] = 1000.0 + number * 360

    assert deaths.get(0, 0) == 0
