"""What a process has used is known until it is reaped: a drain charges a worker for how it ended."""

import os
import subprocess
import sys

import pytest

from benchmarks.processes import cpu_seconds

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_an_ended_process_counts_until_it_is_reaped() -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert cpu_seconds(process.pid) >= 0.25
    process.wait()
    assert cpu_seconds(process.pid) == 0
