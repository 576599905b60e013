"""Processes of the bench's own that run beside the system: asked with JSON, answering with JSON, gone when we are."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from webhooks_platform.local.children import TETHER


class Broken(Exception):
    """Such a process ended without an answer; the text is what it said."""


def tethered(command: Sequence[str]) -> list[str]:
    """The command, tied to our life: when we are killed without a word, the kernel ends it."""
    tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), str(int(signal.SIGTERM)), "-1", "-1"]
    return [*tether, *command]


def ask(module: str, *asked: Mapping[str, Any], seconds: float = 300) -> list[Any]:
    """Runs `python -m module` once per question, all at the same time, and gives their answers."""
    running = [
        subprocess.Popen(
            tethered([sys.executable, "-m", module]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A terminal's Ctrl-C reaches us alone, and we end them.
            start_new_session=True,
        )
        for _ in asked
    ]
    try:
        for process, question in zip(running, asked, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps(question))
            process.stdin.close()
            process.stdin = None
        return [_answer(module, process, seconds) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _answer(module: str, process: "subprocess.Popen[str]", seconds: float) -> Any:
    try:
        said, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Broken(f"{module} gave no answer within {seconds:g} s.") from None
    try:
        return json.loads(said)
    except ValueError as error:
        # Both ends of what it said: where an answer breaks off is no less telling than how it begins.
        told = complaint[-2000:] or f"{error}\n{said[:200]} … {said[-200:]}"
        raise Broken(f"{module} ended with code {process.returncode}:\n{told}") from None
