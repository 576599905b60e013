"""A receiver on a real loopback socket that answers with whatever bytes a test likes, and the transport to reach it."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, ip_network
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deliveries.pump.dial_guard import Lookup
from deliveries.pump.transport import GuardedTransport
from deliveries.send import Answered, Outgoing, Unanswered, send
from subscriptions.guards.urls import ANY_PORT, Policy

LOOPBACK_OPEN = Policy(allowed_networks=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
CLOSED = Policy(allow_http=True, allowed_ports=ANY_PORT)
PUBLIC = "93.184.215.14"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """Reads requests off raw connections and lets a test write whatever bytes it likes in return."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.connection_count = 0
        self.port = 0
        self.stop_listening: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                await self.answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()


@asynccontextmanager
async def receiving(answer: Answer | bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(writes(answer) if isinstance(answer, bytes) else answer)
    connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[writer] = asyncio.create_task(receiver.serve(reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    receiver.port, receiver.stop_listening = server.sockets[0].getsockname()[1], server.close
    try:
        yield receiver
    finally:
        server.close()
        for writer, task in connections.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*connections.values(), return_exceptions=True)


def writes(*parts: bytes, close: bool = False) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if close:
            writer.close()

    return answer


def in_turn(*answers: Answer) -> Answer:
    remaining = iter(answers)

    async def answer(writer: asyncio.StreamWriter) -> None:
        await next(remaining)(writer)

    return answer


async def says_nothing(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def resets(writer: asyncio.StreamWriter) -> None:
    # Lingering for zero seconds makes the kernel send RST instead of FIN.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def drips(*start: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        await writes(*start)(writer)
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.05)

    return answer


def answers_with(*addresses: str) -> Lookup:
    async def lookup(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return lookup


@asynccontextmanager
async def transport(
    policy: Policy = LOOPBACK_OPEN,
    *,
    lookup: Lookup | None = None,
    proxy_url: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[GuardedTransport]:
    made = GuardedTransport(policy=policy, lookup=lookup, proxy_url=proxy_url, tls=tls)
    try:
        yield made
    finally:
        await made.aclose()


def outgoing(url: str, *, timeout_seconds: float = 5, body: bytes = b'{"id":"evt_1"}') -> Outgoing:
    headers = (("webhook-id", "evt_1"), ("content-type", "application/json"), ("user-agent", "ours/1"))
    return Outgoing(url=url, headers=headers, body=body, timeout_seconds=timeout_seconds)


async def sent_to(answer: Answer | bytes, *, timeout_seconds: float = 5) -> tuple[Answered | Unanswered, Receiver]:
    async with receiving(answer) as receiver, transport() as carrier:
        return await send(outgoing(receiver.url, timeout_seconds=timeout_seconds), transport=carrier), receiver


def kind(sent: Answered | Unanswered) -> str:
    assert isinstance(sent, Unanswered), sent
    assert "127.0.0.1" not in sent.detail
    return sent.error_kind


def status(sent: Answered | Unanswered) -> int:
    assert isinstance(sent, Answered), sent
    return sent.status_code


def self_signed(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server with its own certificate for 127.0.0.1, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    both = folder / "receiver.pem"
    both.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(both)
    return server_side, ssl.create_default_context(cafile=str(both))
