"""deliveries/pump/connector.py on real sockets: TLS, addresses that are refused at the dial, and egress proxies."""

import asyncio
import socket
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from deliveries.send import Unanswered, send
from subscriptions.guards.urls import Policy, check_addresses
from tests.integration.deliveries.pump.raw_receiver import (
    CLOSED,
    OK,
    PUBLIC,
    answers_with,
    kind,
    outgoing,
    receiving,
    self_signed,
    status,
    transport,
)

pytestmark = pytest.mark.asyncio


async def test_a_certificate_nobody_vouches_for_is_a_tls_failure(tmp_path: Path) -> None:
    server_side, _ = self_signed(tmp_path)
    async with receiving(OK, tls=server_side) as receiver, transport() as carrier:
        sent = await send(outgoing(f"https://127.0.0.1:{receiver.port}/"), transport=carrier)
    assert kind(sent) == "tls"
    assert isinstance(sent, Unanswered)
    assert "self-signed certificate" in sent.detail
    assert receiver.requests == []


async def test_a_certificate_for_another_name_is_a_tls_failure(tmp_path: Path) -> None:
    server_side, client_side = self_signed(tmp_path)
    async with (
        receiving(OK, tls=server_side) as receiver,
        transport(lookup=answers_with("127.0.0.1"), tls=client_side) as carrier,
    ):
        sent = await send(outgoing(f"https://other.example:{receiver.port}/"), transport=carrier)
    assert kind(sent) == "tls"
    assert receiver.requests == []


async def test_a_certificate_that_is_trusted_and_fits_is_an_answer(tmp_path: Path) -> None:
    server_side, client_side = self_signed(tmp_path)
    async with receiving(OK, tls=server_side) as receiver, transport(tls=client_side) as carrier:
        for _ in range(2):
            sent = await send(outgoing(f"https://127.0.0.1:{receiver.port}/"), transport=carrier)
            assert status(sent) == 200
    assert receiver.connection_count == 1


async def test_a_plain_server_behind_an_https_url_is_a_tls_failure() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, transport() as carrier:
        port = server.sockets[0].getsockname()[1]
        assert kind(await send(outgoing(f"https://127.0.0.1:{port}/"), transport=carrier)) == "tls"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "2130706433", "127.1", "0x7f000001"])
async def test_s01_no_spelling_of_loopback_is_dialled(host: str) -> None:
    async with receiving(OK) as receiver, transport(CLOSED) as carrier:
        sent = await send(outgoing(f"http://{host}:{receiver.port}/"), transport=carrier)
    assert (kind(sent), sent.address) == ("refused_address", None)
    assert receiver.connection_count == 0


@pytest.mark.parametrize("answers", [("127.0.0.1", PUBLIC), (PUBLIC, "127.0.0.1"), (PUBLIC, "::ffff:127.0.0.1")])
async def test_s02_a_name_with_any_refused_answer_is_refused_whole(answers: tuple[str, ...]) -> None:
    async with receiving(OK) as receiver, transport(CLOSED, lookup=answers_with(*answers)) as carrier:
        url = f"http://mixed.example:{receiver.port}/"
        for sent in await asyncio.gather(*(send(outgoing(url), transport=carrier) for _ in range(5))):
            assert (kind(sent), sent.address) == ("dns", None)
    assert receiver.connection_count == 0


async def test_s03_a_name_that_rebinds_is_refused_at_the_dial() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def rebinding(_host: str, _port: int) -> list[str]:
        return next(answers)

    async with receiving(OK) as receiver, transport(CLOSED, lookup=rebinding) as carrier:
        checked = await rebinding("rebinds.example", receiver.port)
        check_addresses(checked, scheme="http", port=receiver.port, policy=CLOSED)

        sent = await send(outgoing(f"http://rebinds.example:{receiver.port}/"), transport=carrier)
    assert (kind(sent), sent.address) == ("dns", None)
    assert receiver.connection_count == 0


@pytest.mark.parametrize("dialled", [["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]])
async def test_s03_an_address_that_changes_after_the_lookup_was_judged_is_refused_at_the_dial(
    dialled: list[str],
) -> None:
    class Shifting(list[str]):
        """Public to whoever looks first, private from then on."""

        looks = 0

        def __iter__(self) -> Iterator[str]:
            self.looks += 1
            return iter([PUBLIC] if self.looks == 1 else dialled)

    async def lookup(_host: str, _port: int) -> list[str]:
        return Shifting([PUBLIC])

    async with receiving(OK) as receiver, transport(CLOSED, lookup=lookup) as carrier:
        sent = await send(outgoing(f"http://shifts.example:{receiver.port}/"), transport=carrier)
    assert (kind(sent), sent.address) == ("dns", None)
    assert receiver.connection_count == 0


async def test_a_name_wholly_inside_an_opened_network_is_dialled_over_http_on_any_port() -> None:
    async with receiving(OK) as receiver, transport(lookup=answers_with("127.0.0.1")) as carrier:
        sent = await send(outgoing(f"http://localhost:{receiver.port}/"), transport=carrier)
    assert (status(sent), sent.address) == (200, "127.0.0.1")


async def test_s07_a_name_outside_them_keeps_to_https_and_the_ports_on_the_list() -> None:
    asked: list[tuple[str, int]] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return [PUBLIC]

    async with transport(lookup=lookup) as carrier:
        for url in ("http://public.example/", "https://public.example:22/"):
            assert kind(await send(outgoing(url), transport=carrier)) == "refused_address"
    assert asked == [("public.example", 80), ("public.example", 22)]


@pytest.mark.parametrize("failure", [socket.gaierror(socket.EAI_NONAME, "unknown"), None])
async def test_a_name_without_addresses_is_a_dns_failure(failure: OSError | None) -> None:
    async def lookup(_host: str, _port: int) -> list[str]:
        if failure:
            raise failure
        return []

    async with transport(CLOSED, lookup=lookup) as carrier:
        assert kind(await send(outgoing("https://nowhere.example/"), transport=carrier)) == "dns"


async def test_an_egress_proxy_carries_the_request_and_resolves_the_name() -> None:
    async def lookup(_host: str, _port: int) -> list[str]:
        raise AssertionError("names are the proxy's to resolve")

    async with receiving(OK) as proxy:
        policy = Policy(allow_http=True, allowed_networks=(ip_network("192.168.0.0/16"),))
        async with transport(policy, lookup=lookup, proxy_url=f"http://127.0.0.1:{proxy.port}") as carrier:
            sent = await send(outgoing("http://hooks.example/a"), transport=carrier)
            assert (status(sent), sent.address) == (200, None)
            assert proxy.requests[0].startswith(b"POST http://hooks.example/a HTTP/1.1\r\nhost: hooks.example\r\n")

            for url in ("http://10.0.0.1/", "http://hooks.example:22/", "https://[::1]/"):
                assert kind(await send(outgoing(url), transport=carrier)) == "refused_address"
    assert len(proxy.requests) == 1


async def test_an_egress_proxy_tunnels_https(tmp_path: Path) -> None:
    server_side, client_side = self_signed(tmp_path)
    tunnels: list[bytes] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async with receiving(OK, tls=server_side) as receiver:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tunnels.append(await reader.readuntil(b"\r\n\r\n"))
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", receiver.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

        async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy:
            proxy_url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            async with transport(proxy_url=proxy_url, tls=client_side) as carrier:
                for _ in range(2):
                    sent = await send(outgoing(f"https://127.0.0.1:{receiver.port}/"), transport=carrier)
                    assert (status(sent), sent.address) == (200, None)
    assert [tunnel.partition(b"\r\n")[0] for tunnel in tunnels] == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % receiver.port]


async def test_a_proxy_that_refuses_to_connect_is_a_failed_connection() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        proxy_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with transport(Policy(), proxy_url=proxy_url) as carrier:
            assert kind(await send(outgoing("https://hooks.example/"), transport=carrier)) == "connect_failed"
