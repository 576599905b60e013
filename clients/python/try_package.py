"""Builds the package and tries it in empty virtual environments: bare, with each extra, and with all and its tests.

python clients/python/try_package.py [PYTHON …]        (interpreters; by default the one that runs this)
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
# What has to import with an extra; the first stands for no extra at all.
IMPORTS = {
    "": ["webhooks_client", "webhooks_client.receive", "webhooks_client.cli"],
    "django": ["webhooks_client.django", "django"],
    "sqlalchemy": ["webhooks_client.receive.sqlalchemy"],
    "redis": ["webhooks_client.receive.redis", "redis"],
    "fastapi": ["webhooks_client.receive.adapters", "fastapi"],
    "flask": ["webhooks_client.receive.adapters", "flask"],
    "celery": ["webhooks_client.receive.hand_over", "celery"],
    "rq": ["webhooks_client.receive.hand_over", "rq"],
    "cli": ["webhooks_client.cli"],
}


def run(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


def environment(python: str, folder: Path) -> Path:
    if python == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def main(pythons: list[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        builder = environment(sys.executable, folder / "builder")
        run(builder, "-m", "pip", "install", "-q", "build")
        run(builder, "-m", "build", "--outdir", folder / "dist", HERE)
        wheel = next((folder / "dist").glob("*.whl"))
        for python in pythons:
            for extra, modules in IMPORTS.items():
                made = environment(python, folder / "tried")
                run(made, "-m", "pip", "install", "-q", f"{wheel}[{extra}]" if extra else wheel)
                run(made, "-W", "error", "-c", f"import {', '.join(modules)}")
                run(made.with_name("webhooks"), "--version")
                print(f"{python}: [{extra}] installs and imports", flush=True)
                shutil.rmtree(folder / "tried")
            made = environment(python, folder / "tried")
            run(made, "-m", "pip", "install", "-q", f"{wheel}[{','.join(filter(None, IMPORTS))},test]")
            shutil.copytree(HERE / "tests", folder / "checkout" / "tests")
            # The tests alone, so that they see the installed package and not the source.
            shutil.copy(HERE / "pyproject.toml", folder / "checkout")
            run(made, "-m", "pytest", "-q", cwd=folder / "checkout")
            shutil.rmtree(folder / "tried")
            shutil.rmtree(folder / "checkout")


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])
