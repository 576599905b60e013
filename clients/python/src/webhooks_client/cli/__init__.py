"""The command `webhooks`. WEBHOOKS_URL and WEBHOOKS_KEY say where and who, or `--url` and `--key`."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from webhooks_client.cli import commands, listen
from webhooks_client.cli.commands import Command
from webhooks_client.cli.screen import Screen
from webhooks_client.client import Client
from webhooks_client.errors import WebhooksError


def main(argv: Sequence[str] | None = None) -> int:
    """0 when it went well, 1 when something was refused or found wrong, 2 for a command that makes no sense."""
    arguments = _parser().parse_args(argv)
    command: Command = arguments.command
    screen = Screen(as_json=arguments.json)
    try:
        if command.needs_client:
            if not arguments.url or not arguments.key:
                screen.error("Set WEBHOOKS_URL and WEBHOOKS_KEY, or give --url and --key.")
                return 2
            with Client(arguments.url, arguments.key, **command.client_options) as client:
                return command.run(client, arguments, screen)
        return command.run(None, arguments, screen)
    except WebhooksError as error:
        screen.error(str(error), document=getattr(error, "document", None))
        return 1
    except BrokenPipeError:
        # Whoever read along, `head` for instance, has seen enough. Nothing is left for Python to flush at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError) as error:
        screen.error(str(error))
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--url", default=os.environ.get("WEBHOOKS_URL"), help="the platform; WEBHOOKS_URL")
    shared.add_argument("--key", default=os.environ.get("WEBHOOKS_KEY"), help="an API key; better WEBHOOKS_KEY")
    shared.add_argument("--json", action="store_true", help="one JSON document per line, for programs")
    parser = argparse.ArgumentParser(prog="webhooks", description="Emit, watch, replay, verify and listen to webhooks.")
    parser.add_argument("--version", action="version", version=_version())
    names = parser.add_subparsers(required=True, metavar="command")
    for command in (*commands.COMMANDS, listen.COMMAND):
        made = names.add_parser(command.name, parents=[shared], help=command.help, description=command.help)
        command.arguments(made)
        made.set_defaults(command=command)
    return parser


def _version() -> str:
    try:
        return version("webhooks-client")
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    sys.exit(main())
