"""Whether what a benchmark started outlives it. A benchmark that is killed, or ended by SIGTERM, tidies nothing up."""

from __future__ import annotations

import subprocess
import sys

import psutil

SECONDS = 20.0


def left_behind(script: str) -> list[str]:
    """The command lines of the processes that are still there after whoever started them was killed.

    Args:
        script: Python that starts them, has them up, prints their pids on one line, and waits.
    """
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as benchmark:
        assert benchmark.stdout is not None
        said = benchmark.stdout.readline()
        children = [psutil.Process(int(pid)) for pid in said.split()]
        benchmark.kill()
        assert children, benchmark.communicate(timeout=SECONDS)
    _, alive = psutil.wait_procs(children, timeout=SECONDS / 4)
    left = [" ".join(child.cmdline()) for child in alive]
    for child in alive:
        child.kill()
    return left
