"""`SSL_CERT_FILE` names the authorities that a delivery trusts: so are receivers reached whose certificates a private
one has signed. In a process of its own, since OpenSSL is asked when it starts."""

import asyncio
import os
import ssl
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.integration.deliveries.pump.raw_receiver import OK, receiving
from webhooks_platform.local.environment import BASE_DIR

SEND = """
import asyncio, sys
import django
django.setup()
from deliveries.send import Answered, Outgoing, send
from deliveries.pump.transport import GuardedTransport
from subscriptions.guards.targets import policy

async def main():
    async with GuardedTransport(policy=policy()) as transport:
        sent = await send(Outgoing(url=sys.argv[1], headers=(), body=b"{}", timeout_seconds=10), transport=transport)
        print(sent.status_code if isinstance(sent, Answered) else sent.error_kind)

asyncio.run(main())
"""


@pytest.mark.parametrize(("trusts_it", "expected"), [(True, "200"), (False, "tls")])
def test_a_receiver_with_a_certificate_of_a_private_authority(trusts_it: bool, expected: str, tmp_path: Path) -> None:
    authority, server_side = private_authority(tmp_path)
    given = {"SSL_CERT_FILE": str(authority)} if trusts_it else {}
    assert asyncio.run(send_there(server_side, given)) == expected


async def send_there(server_side: ssl.SSLContext, given: dict[str, str]) -> str:
    async with receiving(OK, tls=server_side) as receiver:
        url = f"https://127.0.0.1:{receiver.port}/"
        sending = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SEND, url, cwd=BASE_DIR, env={**os.environ, **given}, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await sending.communicate()
    return output.decode().strip()


def private_authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Its own certificate, and a server for 127.0.0.1 whose certificate it has signed."""
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name = _name("a private authority")
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    root = (
        _certificate(root_name, root_key, issuer=root_name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(root_key, hashes.SHA256())
    )
    signed = (
        _certificate(_name("receiver"), key, issuer=root_name)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "root.pem").write_bytes(root.public_bytes(pem))
    both = signed.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "receiver.pem").write_bytes(both)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(folder / "receiver.pem")
    return folder / "root.pem", server_side


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _certificate(subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
