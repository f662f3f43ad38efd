"""Reads the memory of the process and the limit of its container.

Blocking, for some microseconds: reads files of the kernel's. Zero means that the kernel does not say.
"""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from pathlib import Path

_STATM = Path("/proc/self/statm")
_CGROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
_OF_CONTAINER = 0.9
"""The share of the container's memory that the process may use. The rest is for what the kernel counts for the
container as well: buffers of sockets, pages of files."""


def resident_bytes() -> int:
    """Return the resident memory of the process."""
    try:
        return int(os.pread(_own_statm(), 256, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@functools.cache
def _own_statm() -> int:
    """Return /proc/self/statm, kept open since the process may have no descriptor left when its memory matters.

    Raises OSError, which is not kept.
    """
    return os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)


def container_limit(cgroups: Path = _CGROUPS, mount: Path = _MOUNT) -> int:
    """Return the bytes that the control group and its ancestors allow (cgroup v2: memory.max)."""
    try:
        lines = cgroups.read_text().splitlines()
    except OSError:
        return 0
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if own is None:
        return 0
    here, limits = mount / own, []
    while here.is_relative_to(mount):
        with suppress(OSError, ValueError):  # the root has none, and "max" is no limit
            limits.append(int((here / "memory.max").read_text()))
        here = here.parent
    return min(limits, default=0)


def most_bytes(wanted: int, limit: int) -> int:
    """Return what is `wanted`, or less if the kernel would kill the container before the process has so much."""
    allowed = int(limit * _OF_CONTAINER)
    return min(wanted, allowed) if wanted and allowed else wanted
