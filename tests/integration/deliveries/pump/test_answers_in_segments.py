"""What counts as an answer, byte for byte at a real socket: large heads, lengths given twice, stray bytes (W17)."""

import asyncio

import pytest

from deliveries.send import Answered, Unanswered, send
from tests.integration.deliveries.pump.raw_receiver import (
    OK,
    Answer,
    in_turn,
    kind,
    outgoing,
    receiving,
    sent_to,
    status,
    transport,
    writes,
)

pytestmark = pytest.mark.asyncio

EMPTY = b"Content-Length: 0\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


def in_segments(*parts: bytes) -> Answer:
    """Each part is read before the next is written."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await let_it_be_read()

    return answer


async def let_it_be_read() -> None:
    for _ in range(4):  # the loop sends, finds it readable, reads
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "head",
    [
        b"X-Long: " + b"y" * 60 * 1024 + b"\r\n",
        b"X-Long: " + b"y" * (64 * 1024 - len("X-Long")) + b"\r\n",
        b"".join(b"X-%d: y\r\n" % n for n in range(900)),
        b"".join(b"X-%d: y\r\n" % n for n in range(999)),
        b"".join(b"X-%d: %b\r\n" % (n, b"y" * 2000) for n in range(100)),
    ],
)
async def test_w17_a_2xx_with_a_large_head_is_a_success(head: bytes) -> None:
    sent, _ = await sent_to(b"HTTP/1.1 200 OK\r\n" + head + EMPTY)
    assert status(sent) == 200
    sent, _ = await sent_to(in_segments(b"HTTP/1.1 200 OK\r\n" + head[:5000], head[5000:] + EMPTY))
    assert status(sent) == 200
    assert isinstance(sent, Answered)
    # What is stored of it stays bounded.
    assert sum(len(name) + len(value) for name, value in sent.headers) <= 8192


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"X-Long: " + b"y" * 65 * 1024 + b"\r\n", "a header of more than 64 KiB"),
        (b"".join(b"X-%d: y\r\n" % n for n in range(1001)), "more than 1,000 headers"),
        (b"".join(b"X-%d: %b\r\n" % (n, b"y" * 60_000) for n in range(5)), "a head of more than 256 KiB"),
    ],
)
async def test_w17_a_larger_head_fails_with_a_sentence_that_says_so(head: bytes, said: str) -> None:
    sent, _ = await sent_to(in_segments(b"HTTP/1.1 200 OK\r\n", head, EMPTY))
    assert kind(sent) == "bad_response"
    assert isinstance(sent, Unanswered)
    assert f'({said}; received "HTTP/1.1 200 OK\\r\\n' in sent.detail


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nServer: x\r\ncontent-length:5\r\nCONTENT-LENGTH: 5 \r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: 5,5\r\nContent-Length: 5\r\n",
    ],
)
async def test_w17_a_length_that_is_given_twice_the_same_is_one_length(lengths: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + lengths + b"\r\nhello"
    for segments in ([answer], [answer[:20], answer[20:]], [answer[:-1], answer[-1:]]):
        async with receiving(in_segments(*segments)) as receiver, transport() as carrier:
            for _ in range(2):
                sent = await send(outgoing(receiver.url), transport=carrier)
                assert isinstance(sent, Answered), sent
                assert (sent.status_code, sent.body) == (200, b"hello")
        assert receiver.connection_count == 1


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: 5\r\nContent-Length: 5, 6\r\n",
        b"Content-Length: 5,\r\n",
        b"Content-Length: many\r\nContent-Length: many\r\n",
    ],
)
async def test_w17_lengths_that_differ_are_no_answer(lengths: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + lengths + b"\r\nhello!"
    for segments in ([answer], [answer[:20], answer[20:]]):
        sent, _ = await sent_to(in_segments(*segments))
        assert kind(sent) == "bad_response"


@pytest.mark.parametrize("answer", [OK, NO_CONTENT, CHUNKED, b"HTTP/1.1 200 OK\n" + EMPTY.replace(b"\r", b"")])
@pytest.mark.parametrize("stray", [b"", b"stray bytes", b"HTTP/1.1 500 No\r\nX"])
async def test_w17_a_2xx_is_a_success_wherever_it_is_cut_and_whatever_follows(answer: bytes, stray: bytes) -> None:
    whole = answer + stray
    for place in range(1, len(whole)):
        async with receiving(in_segments(whole[:place], whole[place:])) as receiver, transport() as carrier:
            for _ in range(2):
                assert status(await send(outgoing(receiver.url), transport=carrier)) // 100 == 2, place
                await let_it_be_read()
            assert receiver.connection_count == (2 if stray else 1), place
            assert len(receiver.requests) == 2


@pytest.mark.parametrize("stray", [b"ok", b"<html>", b"H"])
async def test_w17_stray_bytes_that_cross_the_next_request_do_not_fail_it(stray: bytes) -> None:
    """Some servers send the body of a 204 in a segment of its own, when the next request is on its way already."""
    async with (
        receiving(in_turn(writes(NO_CONTENT), writes(stray, OK), writes(OK))) as receiver,
        transport() as carrier,
    ):
        for code in (204, 200):
            assert status(await send(outgoing(receiver.url), transport=carrier)) == code
    assert receiver.connection_count == 2
    assert receiver.requests[1] == receiver.requests[2]


async def test_an_answer_that_is_no_http_on_a_kept_connection_is_asked_for_twice_at_most() -> None:
    answers = in_turn(writes(OK), writes(b"nonsense"), writes(b"nonsense"))
    async with receiving(answers) as receiver, transport() as carrier:
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
        assert kind(await send(outgoing(receiver.url), transport=carrier)) == "bad_response"
    assert len(receiver.requests) == 3


async def test_a_head_that_is_broken_http_on_a_kept_connection_is_not_asked_for_again() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"
    async with receiving(in_turn(writes(OK), writes(broken))) as receiver, transport() as carrier:
        assert status(await send(outgoing(receiver.url), transport=carrier)) == 200
        assert kind(await send(outgoing(receiver.url), transport=carrier)) == "bad_response"
    assert len(receiver.requests) == 2
