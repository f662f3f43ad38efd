"""Resources that a tree of processes has used: CPU to the nanosecond, times it was woken, memory.

Reads /proc alone: sum_exec_runtime of every thread (schedstat), because a tick of 10 ms is too coarse for runs of a
second. Invariant: a tree's CPU time never falls as long as its processes and threads live. A thread that ends takes its
own along, so proxies that start a thread per connection are read before the connections end.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import psutil

_PROC = Path("/proc")


class Usage(NamedTuple):
    """Sums over a process and all below it. `wakes` counts how often a thread was put on a core."""

    cpu_seconds: float = 0.0
    wakes: int = 0

    def since(self, earlier: Usage) -> Usage:
        return Usage(self.cpu_seconds - earlier.cpu_seconds, self.wakes - earlier.wakes)


class Memory(NamedTuple):
    """Memory of processes, in bytes. The proportional set counts pages that processes share once."""

    resident: int = 0
    proportional: int = 0


def tree(pids: list[int]) -> list[int]:
    """Return these processes and all below them; those that have ended meanwhile are left out."""
    found: dict[int, None] = {}
    for pid in pids:
        try:
            found[pid] = None
            found.update(dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True)))
        except psutil.NoSuchProcess:
            found.pop(pid)
    return list(found)


def usage(pids: list[int]) -> Usage:
    """Return the usage of these processes, none below them: a frequent caller has the tree already."""
    nanoseconds = wakes = 0
    for pid in pids:
        for task in (_PROC / str(pid) / "task").glob("*/schedstat"):
            try:
                ran, _, slices = task.read_text().split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            nanoseconds += int(ran)
            wakes += int(slices)
    return Usage(nanoseconds / 1e9, wakes)


def machine_cpu_seconds() -> float:
    """Return the CPU of everything on this machine, time taken away by the hypervisor (steal) included."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def memory(pids: list[int]) -> Memory:
    """Return the memory of these processes, none below them."""
    resident = proportional = 0
    for pid in pids:
        try:
            rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
        resident += sizes["Rss:"]
        proportional += sizes["Pss:"]
    return Memory(resident, proportional)
