"""webhooks_platform/logs.py: one line per unit of work, which machines can read and people too."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from webhooks_platform.logs import JsonFormatter, TextFormatter


def record(message: str, *arguments: object, fields: Any = None, exc_info: Any = None) -> logging.LogRecord:
    made = logging.LogRecord("deliveries.deliver", logging.INFO, "x.py", 1, message, arguments, exc_info)
    made.created = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC).timestamp()
    if fields is not None:
        made.fields = fields
    return made


def raised() -> Any:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        return sys.exc_info()


def test_a_json_line_is_one_object_with_the_fields_beside_the_message() -> None:
    line = JsonFormatter().format(record("delivery.attempted", fields={"attempt": 2, "status_code": None}))

    assert orjson.loads(line) == {
        "at": "2026-03-01T12:00:00.123+00:00",
        "level": "info",
        "logger": "deliveries.deliver",
        "message": "delivery.attempted",
        "attempt": 2,
        "status_code": None,
    }


def test_a_json_line_stays_one_line_even_with_an_exception() -> None:
    line = JsonFormatter().format(record("delivery.broken", exc_info=raised()))

    assert "\n" not in line
    assert orjson.loads(line)["exception"].endswith("ValueError: two\nlines")


def test_a_json_line_shows_what_json_has_no_word_for_as_text() -> None:
    line = JsonFormatter().format(record("x", fields={"id": UUID(int=1), "error": OSError("gone")}))

    assert orjson.loads(line) | {"at": ""} == {
        "at": "",
        "level": "info",
        "logger": "deliveries.deliver",
        "message": "x",
        "id": "00000000-0000-0000-0000-000000000001",
        "error": "gone",
    }


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_arguments_of_a_message_are_filled_in(formatter: logging.Formatter) -> None:
    assert "took 3 s" in formatter.format(record("took %d s", 3))


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_fields_of_somebody_elses_making_are_left_out(formatter: logging.Formatter) -> None:
    assert "surprise" not in formatter.format(record("x", fields="surprise"))


def test_a_text_line_is_the_time_the_level_the_message_and_the_fields() -> None:
    line = TextFormatter().format(record("event.accepted", fields={"event": "evt_1", "deliveries": 2}))

    assert line == "2026-03-01T12:00:00.123+00:00 INFO    event.accepted event=evt_1 deliveries=2"


def test_a_value_that_strangers_chose_begins_no_line_of_its_own() -> None:
    line = TextFormatter().format(record("request.answered", fields={"path": "/\n2026 ERROR \x1b[2J\u2028x"}))

    assert line.splitlines() == [line]
    assert line.endswith(r"path=/\n2026 ERROR \x1b[2J\u2028x")


def test_a_text_line_without_fields_ends_with_its_message() -> None:
    assert TextFormatter().format(record("x")) == "2026-03-01T12:00:00.123+00:00 INFO    x"


def test_a_text_line_is_followed_by_its_exception() -> None:
    first, *rest = TextFormatter().format(record("x", exc_info=raised())).splitlines()

    assert first == "2026-03-01T12:00:00.123+00:00 INFO    x"
    assert rest[-2:] == ["ValueError: two", "lines"]


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_work_that_ended_together_makes_a_line_each(formatter: logging.Formatter) -> None:
    parts = [{"attempt": 1}, {"attempt": 2}, {"attempt": 3}]

    joined = formatter.format(record("delivery.attempted", fields=parts))

    assert joined.splitlines() == [formatter.format(record("delivery.attempted", fields=part)) for part in parts]
