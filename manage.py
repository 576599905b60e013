#!/usr/bin/env python
"""Django's command line, run inside the project's own virtual environment even when called with another Python."""

import importlib.util
import os
import sys
from pathlib import Path

VENV_PYTHON = Path(__file__).resolve().parent / ".venv" / "bin" / "python"


def main() -> None:
    if importlib.util.find_spec("django") is None:
        if not VENV_PYTHON.exists() or Path(sys.prefix) == VENV_PYTHON.parent.parent:
            sys.exit("Django is not installed here. Run `make up` or `make install` first.")
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
