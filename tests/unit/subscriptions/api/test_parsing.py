"""subscriptions/api/parsing.py: what every consumer's parser reads as the same thing gets in, and nothing else."""

from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

from subscriptions.api.parsing import StrictJSONParser, loads
from subscriptions.api.problems import Problem


def refusal(raw: bytes) -> tuple[int, str, str]:
    with pytest.raises(Problem) as refused:
        loads(raw)
    return refused.value.status, refused.value.code, refused.value.detail


def parsed(raw: bytes, *, media_type: str = "application/json", max_body_bytes: int | None = None) -> Any:
    view = SimpleNamespace(max_body_bytes=max_body_bytes)
    return StrictJSONParser().parse(BytesIO(raw), media_type, {"view": view})


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"{}", {}),
        (b' [1, 2.5, null, true, ""] ', [1, 2.5, None, True, ""]),
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"1e308", 1e308),
        (b"1e-400", 0.0),
        (b"-0.0", -0.0),
        (b'"\\ud83c\\udf89"', "🎉"),
        ('"\u2028"'.encode(), "\u2028"),
        (b'"\\\\u0000"', "\\u0000"),
        (b'{"a": {"a": 1}}', {"a": {"a": 1}}),
    ],
)
def test_plain_json_is_read_as_it_stands(raw: bytes, value: Any) -> None:
    assert loads(raw) == value


@pytest.mark.parametrize(
    ("raw", "detail"),
    [
        (b"\xff\xfe{}", "The body is not UTF-8 (byte 0)."),
        (b'{"a": "\xc3\x28"}', "The body is not UTF-8 (byte 7)."),
        (b'{"a": 1, "b": 2, "a": 3}', "The key 'a' stands twice in one object."),
        (b'[{"b": {"c": 1, "c": 1}}]', "The key 'c' stands twice in one object."),
        (b"NaN", "NaN is not JSON."),
        (b"[-Infinity]", "-Infinity is not JSON."),
        (b"18446744073709551616", "An integer does not fit into 64 bits; send it as a string."),
        (b"-9223372036854775809", "An integer does not fit into 64 bits; send it as a string."),
        (b"1" * 100_000, "An integer does not fit into 64 bits; send it as a string."),
        (b"1e309", "A number is too large for a double; send it as a string."),
        (b'"\\u0000"', "A string holds a NUL character, which many receivers cannot store."),
        (b'{"a": ["\\u0000"]}', "A string holds a NUL character, which many receivers cannot store."),
        (b'{"\\u0000": 1}', "A string holds a NUL character, which many receivers cannot store."),
        (b'"\\ud83c"', "The body is not valid Unicode (a lone surrogate)."),
        (b'{"\\udf89": 1}', "The body is not valid Unicode (a lone surrogate)."),
        (b"[" * 300 + b"]" * 300, "The body is nested too deeply."),
        (b"[" * 100_000 + b"]" * 100_000, "The body is nested too deeply."),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "The body is nested too deeply."),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_what_parsers_disagree_about_is_refused_with_its_reason(raw: bytes, detail: str) -> None:
    assert refusal(raw) == (400, "invalid_json", detail)


@pytest.mark.parametrize(
    "raw", [b"", b" ", b"{", b'{"a": 1', b"{'a': 1}", b'{"a": 1,}', b"[1] [2]", b"01", b'"\n"', b"\xef\xbb\xbf{}"]
)
def test_what_is_no_json_is_refused_as_such(raw: bytes) -> None:
    status, code, detail = refusal(raw)

    assert (status, code) == (400, "invalid_json")
    assert detail.startswith("The body is not valid JSON: ")


def test_a_body_of_exactly_the_limit_is_read(settings: Settings) -> None:
    settings.MAX_BODY_BYTES = 1024

    assert parsed(b'"' + b"x" * 1022 + b'"') == "x" * 1022


def test_a_body_of_one_byte_more_is_refused(settings: Settings) -> None:
    settings.MAX_BODY_BYTES = 1024

    with pytest.raises(Problem) as refused:
        parsed(b'"' + b"x" * 1023 + b'"')

    assert (refused.value.status, refused.value.code) == (413, "payload_too_large")
    assert refused.value.detail == "The body is larger than 1 KiB."


def test_a_view_may_allow_more(settings: Settings) -> None:
    settings.MAX_BODY_BYTES = 1024

    assert parsed(b'"' + b"x" * 2000 + b'"', max_body_bytes=4096) == "x" * 2000


@pytest.mark.parametrize("charset", ["", "; charset=utf-8", '; charset="UTF-8"', "; charset=us-ascii", "; a=b"])
def test_utf_8_is_read_under_each_of_its_names(charset: str) -> None:
    assert parsed('"ü"'.encode(), media_type=f"application/json{charset}") == "ü"


@pytest.mark.parametrize("charset", ["utf-16", "latin-1", "iso-8859-1", "nonsense"])
def test_another_charset_is_refused_before_the_body_is_read(charset: str) -> None:
    with pytest.raises(Problem) as refused:
        parsed(b"never read", media_type=f"application/json; charset={charset}")

    assert (refused.value.status, refused.value.code) == (415, "unsupported_charset")


def test_a_key_twice_among_very_many_is_found_without_comparing_each_with_each() -> None:
    """8,000 of them took a second, and each doubling four times as long."""
    keys = "".join(f'"{number}":0,' for number in range(200_000))
    assert refusal(f'{{{keys}"x":1,"x":2}}'.encode())[2] == "The key 'x' stands twice in one object."
