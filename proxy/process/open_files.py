"""Raises the limit of open files, and says how many connections it allows.

Each relayed connection has two sockets. The kernel has two limits: the soft one, which holds, and the hard one, up to
which a process may raise it. systemd and containerd leave the soft one at 1024, for the sake of programs that call
select(2), which would be 480 connections.
"""

from __future__ import annotations

import math
import resource
from contextlib import suppress

DESCRIPTORS_PER_CONNECTION = 2
"""The two sockets of a relayed connection. Splicing takes up to four more for pipes; if there are none, bytes are
copied."""
SPARE_DESCRIPTORS = 64
"""Descriptors kept free for listeners, HTTP, the journal and quotas.toml."""

MUCH_FEWER = 0.9
"""The share of `limits.max_connections` below which it is worth a warning. Its default of 10 000 is a round number, and
the 9968 connections that 20 000 open files allow are as good."""


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as Java and Go do. Where the kernel refuses that, it stays as it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> float:
    """Return the soft limit, which holds; infinite if there is none."""
    return _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def limit_of_run() -> float:
    """Return the limit that `run` would have if it were started as this process was."""
    return _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def most_connections(open_files: float) -> float:
    """Return how many connections so many open files allow."""
    return max((open_files - SPARE_DESCRIPTORS) // DESCRIPTORS_PER_CONNECTION, 1) if open_files < math.inf else math.inf


def too_few(open_files: float, max_connections: int) -> str | None:
    """Return what to tell an operator, ready to print, if so many open files allow much fewer connections
    than `limits.max_connections` does (0: any number)."""
    most = most_connections(open_files)
    if most >= MUCH_FEWER * max_connections:
        return None
    return (
        f"{most:.0f} connections at most, because {open_files:.0f} files may be open: limits.max_connections "
        f"({max_connections}) needs {SPARE_DESCRIPTORS + DESCRIPTORS_PER_CONNECTION * max_connections}, see "
        "LimitNOFILE= (systemd), ulimits (containers), ulimit -Hn"
    )


def _finite(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit
