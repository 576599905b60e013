"""subscriptions/process/ending.py: the last work of a process that ends in order, however it was started."""

import subprocess
import sys

import pytest

WORK = "from subscriptions.process.ending import at_end\nat_end(lambda: print('written', flush=True))\n"
FORKED = f"""
import multiprocessing
def work():
    exec({WORK!r})
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
"""


@pytest.mark.parametrize("program", [WORK, FORKED], ids=["by itself", "forked, as the web server's are"])
def test_it_is_done_once_at_the_end(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "written\n"
