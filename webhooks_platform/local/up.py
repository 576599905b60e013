"""`make up`: from a clone with its dependencies installed to a running platform that has delivered an event.

    .env → lock → ports → servers → tables and demo → processes → one event, delivered → banner → watch over it all

Everything it starts is its child and ends with it.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial

from webhooks_platform.local import first_event, postgres, programs, reach, valkey
from webhooks_platform.local.banner import Banner, show
from webhooks_platform.local.children import last_lines
from webhooks_platform.local.environment import LocalOptions, load_env_file, read_options
from webhooks_platform.local.first_event import Demo
from webhooks_platform.local.folder import DataFolder, SetupError, claim
from webhooks_platform.local.screen import Screen, open_screen, short
from webhooks_platform.local.server import Server
from webhooks_platform.local.supervisor import Interrupted, Supervisor
from webhooks_platform.local.tail import Tail

SERVER_SECONDS = 60
MIGRATE_SECONDS = 300
WEB_SECONDS = 60
DELIVERY_SECONDS = 20
OLD_PORTS_SECONDS = 10

Prepare = Callable[..., Server]


def main() -> int:
    screen = open_screen()
    try:
        written = load_env_file()
        options = read_options(os.environ)
        with claim(options.data_dir, url=options.url) as folder:
            screen.line()
            if written:
                screen.note(f"wrote fresh secrets to {short(written)}")
            return Up(screen, options, folder).run()
    except SetupError as error:
        screen.fail(str(error))
        return 1
    except KeyboardInterrupt:  # before the supervisor listens, and so before there is anything to stop
        return 130


class Up:
    def __init__(self, screen: Screen, options: LocalOptions, folder: DataFolder) -> None:
        self.begun_at = time.monotonic()
        self.screen = screen
        self.options = options
        self.folder = folder
        self.supervisor = Supervisor(
            on_restart=lambda program, what: screen.restart(f"{program.name} {what} (see {short(program.log)})"),
            on_wait=lambda what: screen.note(f"{what} (Ctrl-C again kills at once)"),
        )
        self.received = Tail(folder.log("receiver"))
        self.env = {"PUBLIC_URL": options.url, **os.environ, "PYTHONUNBUFFERED": "1", "DATA_DIR": str(folder.path)}

    def run(self) -> int:
        exit_code = 0
        try:
            self._bring_up()
        except Interrupted:
            pass  # how it is meant to end
        except SetupError as error:
            self.screen.fail(str(error))
            exit_code = 1
        finally:
            self._stop()
        return exit_code

    def _stop(self) -> None:
        if self.supervisor.has_started:
            self.screen.line()
            self.screen.note("stopping")
            clean = self.supervisor.stop()
            self.screen.note("stopped; the data is kept" if clean else "stopped; some processes had to be killed")

    def _bring_up(self) -> None:
        self._check_ports()
        self._start_server("DATABASE_URL", postgres.prepare, reach.database, done="database ready")
        self._start_server("REDIS_URL", valkey.prepare, reach.broker, done="broker ready")
        demo = self._prepare_demo()
        self.supervisor.start(programs.receiver(self.folder, self.env, self.options, demo.secrets))
        self.supervisor.start(*programs.web_and_deliveries(self.folder, self.env, self.options))
        self._wait_for_web()
        # Only now: the first event does not need them, and loading takes the processor from what it does need.
        self.supervisor.start(*programs.background(self.folder, self.env))
        outcome = self._deliver_one_event(demo)
        show(self.screen, self._banner(demo, outcome))
        self.supervisor.wait_until(self._show_received, seconds=float("inf"), every=0.2)

    def _check_ports(self) -> None:
        # The processes of a run that was killed end by themselves; until then they hold the ports.
        patience = OLD_PORTS_SECONDS if self.folder.was_interrupted else 0
        options = self.options
        for name, host, port in [
            ("PORT", options.host, options.port),
            ("RECEIVER_PORT", "127.0.0.1", options.receiver_port),
        ]:
            if not self.supervisor.wait_until(partial(reach.is_free, host, port), seconds=patience):
                other = port + 100 if port < 65000 else port - 100
                raise SetupError(f"Port {port} is taken by another program. Choose another: {name}={other} make up")

    def _start_server(self, variable: str, prepare: Prepare, complaint: Callable[[str], str], *, done: str) -> None:
        """Ours, out of its wheel; or theirs, when the variable names one."""
        if url := self.env.get(variable):
            with self.screen.step(f"looking for the server in {variable}", f"{done} ({variable})"):
                if not self.supervisor.wait_until(lambda: not complaint(url), seconds=self.options.server_wait_seconds):
                    raise SetupError(f"The server in {variable} cannot be used: {complaint(url)}")
            return
        doing = "starting PostgreSQL" if self.folder.postgres.exists() else "making a database (first start only)"
        with self.screen.step(doing if variable == "DATABASE_URL" else "starting Valkey", done):
            server = prepare(self.folder, say=self.screen.note)
            self.supervisor.start(server.program)
            self._wait_for(server.is_ready, server.program.name, seconds=SERVER_SECONDS)
        self.env[variable] = server.url

    def _prepare_demo(self) -> Demo:
        """Migrations and the demo's rows, in one command: half of its time is loading Django."""
        state = self.folder.path / "demo.json"
        arguments = ["demo", "--migrate", "--receiver-url", self.options.receiver_url, "--state", str(state)]
        with self.screen.step("bringing the tables up to date", "tables up to date, demo consumer acme ready"):
            code = self.supervisor.run(programs.manage(self.folder, self.env, *arguments), seconds=MIGRATE_SECONDS)
            if code != 0:
                log = self.folder.log("demo")
                raise SetupError(f"The tables could not be prepared. The end of {short(log)}:\n\n{last_lines(log)}")
        return Demo.read(state)

    def _wait_for_web(self) -> None:
        url = self.options.url
        with self.screen.step("starting web server and workers", "web server ready"):
            self._wait_for(lambda: first_event.answers(f"{url}/healthz"), "web", seconds=WEB_SECONDS)
            self._wait_for(lambda: first_event.answers(f"{url}/readyz"), "web", seconds=WEB_SECONDS)
            self._wait_for(lambda: reach.listens(self.options.receiver_url), "receiver", seconds=WEB_SECONDS)

    def _wait_for(self, ready: Callable[[], bool], name: str, *, seconds: float) -> None:
        """Until it is ready; not longer than that, and not through a third crash."""
        supervisor = self.supervisor
        supervisor.wait_until(lambda: ready() or supervisor.restart_count(name) > 2, seconds=seconds)
        if not ready():
            log = self.folder.log(name)
            raise SetupError(f"{name} does not start. The end of {short(log)}:\n\n{last_lines(log)}")

    def _deliver_one_event(self, demo: Demo) -> str:
        """What the banner says of the demo's event. A failure is told, and the platform keeps running."""
        url, key = self.options.url, demo.producer_key
        try:
            with self.screen.step("delivering one event", "one event emitted"):
                event = first_event.emit(url, key)
                delivered = self.supervisor.wait_until(
                    lambda: (
                        self.received.saw(event)
                        and first_event.is_delivered(url, key, event=event, endpoint=demo.endpoint)
                    ),
                    seconds=DELIVERY_SECONDS,
                )
        except first_event.CallFailed as error:
            return self.screen.warning(f"the demo's event was not accepted: {error}")
        if delivered:
            return self.screen.success(f"one event delivered and verified by the receiver: {event}")
        logs = ", ".join(short(self.folder.log(name)) for name in ("deliveries1", "receiver", "web"))
        return self.screen.warning(f"event {event} was not delivered within {DELIVERY_SECONDS} s. Look at {logs}")

    def _banner(self, demo: Demo, outcome: str) -> Banner:
        return Banner(
            options=self.options,
            seconds=time.monotonic() - self.begun_at,
            outcome=outcome,
            admin=demo.admin,
            curl=first_event.curl_line(self.options.url, demo.producer_key),
            networks=self.env.get("DELIVERY_ALLOWED_NETWORKS", ""),
        )

    def _show_received(self) -> bool:
        for line in self.received.new_lines():
            self.screen.received(line)
        return False


if __name__ == "__main__":
    sys.exit(main())
