"""deliveries/pump/wire.py by itself: an answer means the same however it is cut into pieces."""

import asyncio
from itertools import pairwise

import pytest
from aiohttp.http_exceptions import HttpProcessingError
from hypothesis import given, settings
from hypothesis import strategies as st

from deliveries.pump.wire import MAX_HEADERS, HeadLines, Wire, parse_failure

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

COMPLETE = {
    OK: b"ok",
    b"HTTP/1.1 204 No Content\r\n\r\n": b"",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": b"",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok": b"ok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok": b"ok",
    b"HTTP/1.1 201 Created\r\nX-A: 1\r\nContent-Length: 2, 2\r\n\r\nok": b"ok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n": b"ok",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n": b"ok",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK: b"ok",
}
STRAY = [
    b"",
    b"ok",
    b"H",
    b"HTTP/1.1 200 OK\r\nX: 1",
    b"\0\xff",
    OK,
    b"<html></html>\r\n\r\n",
    b"HTTP/1.1 500 No\r\n\r\n",
]


class Connection(asyncio.Transport):
    """As much of a connection as the wire looks at."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def heard(pieces: list[bytes]) -> tuple[int, bytes, bool]:
    """Status, body, and whether the connection may be used again, after an answer that came in these pieces."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_heard(pieces, Wire(loop)))
    finally:
        loop.close()


async def _heard(pieces: list[bytes], wire: Wire) -> tuple[int, bytes, bool]:
    wire.connection_made(Connection())
    wire.start_request()
    for piece in pieces:
        wire.data_received(piece)
    message, content = await wire.read()
    while 100 <= message.code < 200:
        message, content = await wire.read()
    body = b""
    while not content.at_eof():
        body += await content.readany()
    return message.code, body, not wire.should_close


def cut(whole: bytes, places: list[int]) -> list[bytes]:
    return [whole[start:end] for start, end in pairwise([0, *sorted(set(places)), len(whole)]) if start < end]


@settings(max_examples=400)
@given(answer=st.sampled_from(list(COMPLETE)), stray=st.sampled_from(STRAY), data=st.data())
def test_w17_a_complete_answer_is_one_however_the_segments_fall(
    answer: bytes, stray: bytes, data: st.DataObject
) -> None:
    whole = answer + stray
    places = data.draw(st.lists(st.integers(1, len(whole)), max_size=6))
    status, body, reusable = heard(cut(whole, places))
    assert (status // 100, body, reusable) == (2, COMPLETE[answer], stray == b"")


@pytest.mark.parametrize("answer", COMPLETE)
def test_w17_a_complete_answer_is_one_byte_by_byte(answer: bytes) -> None:
    whole = answer + b"stray"
    assert heard([whole[at : at + 1] for at in range(len(whole))])[1:] == (COMPLETE[answer], False)


def failure(pieces: list[bytes]) -> str:
    with pytest.raises(HttpProcessingError) as raised:
        heard(pieces)
    return parse_failure(raised.value.message)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (MAX_HEADERS + 1) + b"\r\n", "more than 1,000 headers"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 65_536 + b"\r\n\r\n", "a header of more than 64 KiB"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 65_536, "a header of more than 64 KiB"),
        (b"HTTP/1.1 100 Go on\r\n\r\n" * 11, "one 1xx after another, and no answer"),
        (b"\r\n\r\n" * 1000, "one 1xx after another, and no answer"),
        (b"\n" * 5000, "more than 1,000 headers"),
    ],
)
def test_a_head_beyond_the_limits_fails_with_a_sentence(head: bytes, word: str, whole: bool) -> None:
    assert failure([head] if whole else cut(head, list(range(0, len(head), 97)))) == word


def test_a_head_of_many_long_headers_is_refused_before_it_fills_the_memory() -> None:
    header = b"X: " + b"y" * 60_000 + b"\r\n"
    assert failure([b"HTTP/1.1 200 OK\r\n", *[header] * 10]) == "a head of more than 256 KiB"


def test_lengths_that_differ_are_left_for_the_parser_to_refuse() -> None:
    lines = HeadLines()
    given = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\nContent-Length: 5\r\nContent-Length: 5\r\nContent-Length: 6\r\n"
    )
    assert list(lines.add(given)) == [
        b"HTTP/1.1 200 OK\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 6\r\n",
    ]
