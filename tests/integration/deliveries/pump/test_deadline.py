"""deliveries/send.py on real sockets: an attempt ends at its deadline and leaves nothing open."""

import asyncio
import resource
import socket
from pathlib import Path

import pytest

from benchmarks.load.receiver import patient_receiver
from deliveries.send import Answered, send
from tests.integration.deliveries.pump.raw_receiver import (
    OK,
    Answer,
    answers_with,
    drips,
    kind,
    outgoing,
    receiving,
    says_nothing,
    sent_to,
    status,
    transport,
    writes,
)

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    "answer",
    [
        says_nothing,
        drips(b"HTTP/1.1 200 OK\r\nX-Slow: "),
        drips(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        drips(b"HTTP/1.1 200 OK\r\n\r\n"),
        writes(b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
async def test_w10_a_receiver_that_does_not_finish_is_cut_off_at_the_deadline(answer: Answer) -> None:
    sent, receiver = await sent_to(answer, timeout_seconds=0.3)
    assert kind(sent) == "read_timeout"
    assert 300 <= sent.duration_ms < 1000
    assert len(receiver.requests) == 1


async def test_w10_a_receiver_that_never_answers_holds_nobody_up() -> None:
    all_here = asyncio.Barrier(51)

    async def keeps_waiting(writer: asyncio.StreamWriter) -> None:
        await all_here.wait()
        await says_nothing(writer)

    async with receiving(keeps_waiting) as silent, receiving(OK) as quick, transport() as carrier:
        waiting = [asyncio.create_task(send(outgoing(silent.url), transport=carrier)) for _ in range(50)]
        await all_here.wait()
        sent = [await send(outgoing(quick.url), transport=carrier) for _ in range(10)]
        assert [status(one) for one in sent] == [200] * 10
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        stopped = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in stopped)


async def test_w10_a_name_that_never_resolves_is_cut_off_too() -> None:
    async def never(_host: str, _port: int) -> list[str]:
        return await asyncio.Event().wait() and []

    async with transport(lookup=never) as carrier:
        sent = await send(outgoing("http://slow.example/", timeout_seconds=0.3), transport=carrier)
    assert kind(sent) == "connect_timeout"


async def test_w10_a_handshake_that_never_ends_is_a_connection_that_never_came() -> None:
    async with receiving(says_nothing) as receiver, transport() as carrier:
        url = receiver.url.replace("http:", "https:")
        sent = await send(outgoing(url, timeout_seconds=0.3), transport=carrier)
    assert (kind(sent), sent.address) == ("connect_timeout", None)


async def test_w10_a_receiver_that_never_reads_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel accepts, nobody reads
        port = deaf.getsockname()[1]
        async with transport() as carrier:
            big = outgoing(f"http://127.0.0.1:{port}/", timeout_seconds=0.3, body=b"x" * 1_000_000)
            assert kind(await send(big, transport=carrier)) == "read_timeout"


async def test_w10_one_that_never_reads_keeps_neither_the_connection_nor_the_body() -> None:
    """Regression: a connection with unsent bytes was closed politely, which it stays until they have been read."""
    with socket.socket() as deaf:
        # So small that our own buffers cannot hold the rest either.
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        async with transport() as carrier:
            url, body = f"http://127.0.0.1:{deaf.getsockname()[1]}/", b"x" * 250_000
            before = open_files()
            for _ in range(3):
                sent = await send(outgoing(url, timeout_seconds=0.2, body=body), transport=carrier)
                assert kind(sent) == "read_timeout"
            await asyncio.sleep(0)  # that is when they are closed
            assert open_files() == before


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_when_no_file_is_left_idle_connections_make_room() -> None:
    """Thousands of hosts within half a minute are more connections than some machines allow files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # In a process of its own: in this one it could be its accept that finds no file left.
    with patient_receiver() as (url, _):
        hosts = [url.replace("127.0.0.1", f"host-{number}.example") for number in range(60)]
        async with transport(lookup=answers_with("127.0.0.1")) as carrier:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 20, hard))
            try:
                sent = [await send(outgoing(host), transport=carrier) for host in hosts]
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each.status_code if isinstance(each, Answered) else each for each in sent] == [200] * 60
