"""docs/settings.md is what website/settings_page.py makes of the settings, and each of them has a meaning."""

from website import settings_page


def test_the_page_is_as_the_settings_file_says() -> None:
    assert settings_page.PAGE.read_text() == settings_page.page(), "make settings-page"


def test_every_setting_has_a_meaning() -> None:
    rows = [row for section in settings_page.read(settings_page.SOURCE.read_text()) for row in section.rows]
    assert len(rows) > 90
    assert [name for name, _, meaning in rows if not meaning] == []


def test_a_comment_stands_for_the_settings_right_below_it_and_no_others() -> None:
    source = (
        "# ── Queues ──\n\n# How many (items),\n# and how long (seconds).\n"
        'MOST = env.int("MOST", default=2 * 3)\nLONG = env.list("LONG", default=[1, 2])\n\nNAME = env.str("NAME")\n'
    )
    _, queues = settings_page.read(source)
    assert (queues.title, queues.rows) == (
        "Queues",
        [
            ("MOST", "`6`", "How many (items), and how long (seconds)."),
            ("LONG", "`1,2`", "How many (items), and how long (seconds)."),
            ("NAME", "required", ""),
        ],
    )
