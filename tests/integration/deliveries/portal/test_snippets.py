"""The receivers that the portal hands out, run as they are against live deliveries: both schemes, in a rotation.

Of C#, what verifies is compiled and run by Mono behind a listener of the test's; the lines for ASP.NET are not.
"""

import hmac
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from deliveries.models import Attempt
from deliveries.portal import snippets
from subscriptions import endpoints
from subscriptions.models import Consumer, Endpoint
from subscriptions.signing import schemes
from subscriptions.signing.ready_made import READY_MADE
from subscriptions.signing.recipe import Recipe
from tests.conftest import PumpRunner
from tests.local import free_port, wait_until
from tests.walk import accept
from webhooks_platform.local import reach

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

# However busy the machine is: some of them are compiled when they start (seconds).
START = 240

# What runs a `config.ru` of one lambda, without a gem: enough of Rack for a receiver.
RACKUP = """
require "socket"
require "stringio"
def run(app) = $app = app
load ARGV[0]
server = TCPServer.new("127.0.0.1", Integer(ARGV[1]))
loop do
  socket = server.accept
  next socket.close unless socket.gets
  env = {}
  while (line = socket.gets) && line.strip != ""
    name, value = line.split(":", 2)
    env["HTTP_" + name.upcase.tr("-", "_")] = value.strip
  end
  env["rack.input"] = StringIO.new(socket.read(env["HTTP_CONTENT_LENGTH"].to_i))
  status, = $app.call(env)
  socket.write("HTTP/1.1 #{status} Whatever\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
  socket.close
end
"""


# What ASP.NET does around the snippet: the class that verifies follows it.
LISTENER = """
using System;
using System.IO;
using System.Linq;
using System.Net;
using System.Security.Cryptography;
using System.Text;

static class Program
{
    static void Main(string[] args)
    {
        var listener = new HttpListener();
        listener.Prefixes.Add($"http://127.0.0.1:{args[0]}/");
        listener.Start();
        while (true)
        {
            var context = listener.GetContext();
            var memory = new MemoryStream();
            context.Request.InputStream.CopyTo(memory);
            var known = Webhook.IsAuthentic(name => context.Request.Headers[name] ?? "", memory.ToArray());
            context.Response.StatusCode = known ? 204 : 401;
            context.Response.Close();
        }
    }
}
"""


def as_it_is(code: str) -> str:
    return code


def behind_a_listener(code: str) -> str:
    return LISTENER + code[code.index("static class Webhook") :]


@dataclass(frozen=True)
class Runtime:
    program: str
    file: str
    command: Callable[[str, Path, int], list[str]]
    source: Callable[[str], str] = as_it_is


RUNTIMES = {
    "python": Runtime(sys.executable, "receiver.py", lambda program, file, port: [program, str(file), str(port)]),
    "javascript": Runtime("node", "receiver.mjs", lambda program, file, port: [program, str(file), str(port)]),
    "go": Runtime("go", "receiver.go", lambda program, file, port: [program, "run", str(file), str(port)]),
    "java": Runtime("java", "Receiver.java", lambda program, file, port: [program, str(file), str(port)]),
    "php": Runtime("php", "receiver.php", lambda program, file, port: [program, "-S", f"127.0.0.1:{port}", str(file)]),
    "ruby": Runtime(
        "ruby", "config.ru", lambda program, file, port: [program, "-e", RACKUP, "--", str(file), str(port)]
    ),
    "csharp": Runtime(
        "mcs", "Program.cs", lambda program, file, port: [
            "sh", "-c", f"{program} -out:{file}.exe {file} && exec mono {file}.exe {port}"
        ], behind_a_listener,
    ),
}  # fmt: skip


@contextmanager
def running(
    name: str, *, secrets: list[str], home: Path, scheme: str = "", code: str = "", port: int = 0
) -> Iterator[int]:
    runtime = RUNTIMES[name]
    program, port = shutil.which(runtime.program), port or free_port()
    if program is None:
        pytest.skip(f"no {runtime.program} on the PATH")
    file = home / runtime.file
    file.write_text(code or runtime.source(snippets.code(name, scheme=scheme, url="https://receiver.test/")))
    env = {**os.environ, "WEBHOOK_SECRET": ",".join(secrets)}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            runtime.command(program, file, port), env=env, stdout=log, stderr=log, process_group=0
        )
    try:
        wait_until(lambda: process.poll() is not None or reach.listens(f"http://127.0.0.1:{port}"), seconds=START)
        assert process.poll() is None, (home / "log").read_text()
        # The first request loads classes; the live one below has a deadline of its own.
        assert httpx.post(f"http://127.0.0.1:{port}/hook", content=b"{}", timeout=START).status_code == 401
        yield port
    finally:
        os.killpg(process.pid, 9)
        process.wait(10)


@pytest.mark.parametrize("scheme", ["timestamped", "standard"])
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_receiver_to_copy_takes_what_is_genuine_with_either_secret_and_refuses_the_rest(
    name: str, scheme: str, acme: Consumer, pump: PumpRunner, tmp_path: Path
) -> None:
    endpoint, old = endpoints.create(
        consumer=acme, url="http://127.0.0.1:1/", signature_scheme=scheme, retry_schedule=[0], timeout_seconds=30
    )
    new = endpoints.rotate_secret(endpoint, overlap_seconds=3600).secret

    def status_with(*secrets: str) -> int | None:
        with running(name, scheme=scheme, secrets=list(secrets), home=tmp_path) as port:
            Endpoint.objects.filter(id=endpoint.id).update(url=f"http://127.0.0.1:{port}/hook")
            accept(acme)
            pump.run()
        return Attempt.objects.order_by("-started_at").values_list("status_code", flat=True)[0]

    # Who holds the old secret, who holds the new one, who holds both; and who holds another.
    assert [status_with(old), status_with(new, old), status_with("whsec_b3RoZXI=")] == [204, 204, 401]


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_receiver_to_copy_takes_nothing_that_was_signed_with_an_empty_secret(name: str, tmp_path: Path) -> None:
    """Regression: a comma too many in the list of secrets made one of them empty, and everybody knows that one."""
    timestamp = str(int(time.time()))
    signed = hmac.new(b"", f"{timestamp}.{{}}".encode(), "sha256").hexdigest()
    forged = {"webhook-timestamp": timestamp, "webhook-signature": f"t={timestamp},v1={signed}"}

    with running(name, scheme="timestamped", secrets=["", "whsec_b3RoZXI=", ""], home=tmp_path) as port:
        answer = httpx.post(f"http://127.0.0.1:{port}/hook", content=b"{}", headers=forged, timeout=START)

    assert answer.status_code == 401


PROFILES = {
    **{name: READY_MADE[name] for name in ("github", "shopify", "slack", "stripe")},
    "url-and-id": Recipe(signed="{url}|{id}|{timestamp}|{body}|end", hash="sha512", prefix="sha512=", separator="; "),
    "time-before": Recipe(signed="{timestamp}.{body}", key="base64", lead="ts={timestamp};", timestamp_header=None),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["python", "javascript"])
def test_a_receiver_written_for_a_profile_takes_what_is_genuine_with_either_secret_and_refuses_the_rest(
    name: str, profile: str, acme: Consumer, pump: PumpRunner, tmp_path: Path
) -> None:
    recipe = PROFILES[profile]
    if profile not in READY_MADE:
        schemes.create(name=profile, **recipe.as_json())
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    endpoint, old = endpoints.create(
        consumer=acme, url=url, signature_scheme=profile, retry_schedule=[0], timeout_seconds=30
    )
    new = endpoints.rotate_secret(endpoint, overlap_seconds=3600).secret
    code = next(each.code for each in snippets.snippets(scheme=profile, recipe=recipe, url=url) if each.name == name)

    def status_with(*secrets: str) -> int | None:
        with running(name, code=code, secrets=list(secrets), home=tmp_path, port=port):
            accept(acme)
            pump.run()
        return Attempt.objects.order_by("-started_at").values_list("status_code", flat=True)[0]

    assert [status_with(old), status_with(new), status_with("whsec_b3RoZXI=")] == [204, 204, 401]


@pytest.mark.parametrize("scheme", ["timestamped", "standard"])
def test_the_shell_line_sends_what_a_receiver_takes(scheme: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None or shutil.which("openssl") is None:
        pytest.skip("no curl or openssl on the PATH")
    with running("python", scheme=scheme, secrets=["whsec_c2VjcmV0"], home=tmp_path) as port:
        code = snippets.code("curl", scheme=scheme, url=f"http://127.0.0.1:{port}/")
        answers = [
            subprocess.run(
                ["sh", "-c", code], env={**os.environ, "WEBHOOK_SECRET": secret}, capture_output=True, check=True
            ).stdout.split()[1]
            for secret in ("whsec_c2VjcmV0", "whsec_b3RoZXI=")
        ]
    assert answers == [b"204", b"401"]


def test_each_of_the_eight_knows_its_scheme_and_none_holds_a_secret() -> None:
    for scheme in ("timestamped", "standard"):
        found = snippets.snippets(scheme=scheme, url="https://receiver.test/it's")
        assert len(found) == 8
        for each in found:
            assert ("webhook-timestamp" in each.code.lower().replace("_", "-")) == (
                scheme == "standard" or each.name == "curl"
            ), each.name
            assert "{{" not in each.code
            assert each.code.count("whsec_…") == 1
        assert "it's" not in found[-1].code
