"""Receivers as they are outside of a bench: behind TLS, on many hosts, some closing every connection.

Each origin is an address of its own on the loopback network, `127.0.1.1` and on. The certificate is made here, names
them all, and is the only one that a worker started with `SSL_CERT_FILE` trusts: OpenSSL reads that variable.
"""

import asyncio
import datetime
import ipaddress
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.load.preload import add_endpoints, empty
from benchmarks.load.receiver import Receiving, free_port, running
from benchmarks.measure.drain import drain
from benchmarks.report.figures import significant
from benchmarks.report.progress import say
from benchmarks.stand import Stand

ORIGINS = 200
PEM = "origins.pem"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


# Each host and path of the receivers that are compared.
KINDS = {
    "one_origin": ("127.0.0.1", "open"),
    "many_origins": ("127.0.1.{number}", "open"),
    "new_connections": ("127.0.1.{number}", "close"),
}


def by_receiver(bench: Stand, *, count: int) -> dict[str, Any]:
    """The worker's CPU per delivery, by who receives it."""
    found: dict[str, Any] = {"origins": ORIGINS}
    folder = Path(bench.folder.path)
    trusting = replace(bench, env={**bench.env, "SSL_CERT_FILE": str(folder / PEM)})
    for scheme, stand in (("http", bench), ("https", trusting)):
        with origins(folder, tls=scheme == "https") as port:
            for kind, (host, path) in KINDS.items():
                empty(bench)
                url = f"{scheme}://{host}:{port}/{path}"
                # Without the first: there is no 127.0.1.0 here.
                targets = add_endpoints(name="origin", count=ORIGINS + 1, url=url, max_in_flight=10)[1:]
                one = drain(stand, targets, count=count, workers=1, asks_receiver=False)
                found[f"{scheme}_{kind}"] = {"cpu_ms": significant(one.cpu_ms["worker"]), "rate": significant(one.rate)}
                say(f"{scheme}, {kind}: {one.cpu_ms['worker']:.3f} ms of a worker's CPU each")
    return found


def hosts() -> list[str]:
    return ["127.0.0.1", *(f"127.0.1.{number}" for number in range(1, ORIGINS + 1))]


@contextmanager
def origins(folder: Path, *, tls: bool) -> Iterator[int]:
    """The port on which all of them answer."""
    port = free_port()
    pem = [str(make_certificate(folder, hosts()))] if tls else []
    with running([sys.executable, "-m", "benchmarks.load.many_receivers", str(port), *pem], port):
        yield port


def make_certificate(folder: Path, addresses: Sequence[str]) -> Path:
    """Key and certificate in one file, good for a day."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(one)) for one in addresses])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / PEM
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *plain) + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Closing(Receiving):
    """On `/close` it ends the connection with its answer, so that the next delivery needs a new one."""

    def _answer(self, path: bytes) -> None:
        if path.startswith(b"/close"):
            self._transport.write(CLOSING)
            self._transport.close()
        else:
            super()._answer(path)


async def _serve(port: int, pem: str | None) -> None:
    context = None
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
    loop = asyncio.get_running_loop()
    for host in hosts():
        await loop.create_server(Closing, host, port, backlog=4096, ssl=context)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
