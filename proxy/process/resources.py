"""Memory and open files of the process: how much it has and may have, and when its cyclic garbage is collected.

Each relayed connection has two sockets. The kernel has two limits of open files: the soft one, which holds, and the
hard one, up to which a process may raise it. systemd and containerd leave the soft one at 1024, for the sake of
programs that call select(2), which would be 480 connections.

Files of the kernel's are read, for some microseconds; zero means that the kernel does not say. Python's collector never
runs automatically, and seldom enough that no connection waits for it.

Objects that are not part of a cycle are freed at once, and connections that have ended are (tests see to it). Left to
itself the collector looks at young objects at every 700 new ones. That is little work, unless one of them is a list of
the 25 000 partitions of a Fetch, all of which it then touches: 5 to 12 ms (measured), and every connection waits. There
are few cycles to be found: exceptions with their tracebacks, connections of HTTP that were broken off.

So it looks at objects made since the last time, twice a second: next to nothing where little happens. Where a look
found nothing to speak of, the next is put off, so that looks have a small share of the time, and what comes meanwhile
is taken to be alive as well. To keep it for the next look instead made that look a pause for every connection: 182 ms
for 236 000 objects (measured). Python's count of new objects does not tell how many there are to look through, since it
is less by each object that is freed, the old ones too. What has been seen alive, or taken to be, is looked at again
after `FULL_COLLECTION_SECONDS`.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import resource
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator


_STATM = Path("/proc/self/statm")
_CGROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
_OF_CONTAINER = 0.9
"""The share of the container's memory that the process may use. The rest is for memory that the kernel counts for the
container as well: buffers of sockets, pages of files."""
GARBAGE_LOOK_SECONDS = 0.5
MAX_NEW_OBJECTS = 60_000
"""The number of new objects within `GARBAGE_LOOK_SECONDS` above which no look is taken: most of them are in a few long
lists that are still in use, and looking through them would be a pause of 20 ms and more for every connection."""
WORTHWHILE_OBJECTS = 1000
"""A look that finds so many objects to be garbage, some 200 kB, was worth it: the next is not put off."""
MAX_LOOKING_SHARE = 0.003
"""The most of the time that may go to looks that were not worth it: after such a look the next is put off."""
FULL_COLLECTION_SECONDS = 600.0
DESCRIPTORS_PER_CONNECTION = 2
"""The two sockets of a relayed connection. Splicing takes up to four more for pipes; if there are none, bytes are
copied."""
SPARE_DESCRIPTORS = 64
"""The descriptors kept free for listeners, HTTP, the journal and quotas.toml."""
MUCH_FEWER = 0.9
"""The share of `limits.max_connections` below which it is worth a warning. Its default of 10 000 is a round number, and
the 9968 connections that 20 000 open files allow are as good."""


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
    """Return the bytes `wanted`, or less if the kernel would kill the container before the process has so much."""
    allowed = int(limit * _OF_CONTAINER)
    return min(wanted, allowed) if wanted and allowed else wanted


@contextmanager
def collected_by_hand() -> Iterator[None]:
    """Leave cyclic garbage to `collect_now_and_then` while the block lasts. Objects from before the block are not
    looked at until `FULL_COLLECTION_SECONDS` are over: a start leaves 0.7 MB of garbage, and to find that took a
    twentieth of the start's CPU."""
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.unfreeze()


async def collect_now_and_then() -> None:
    """Collect garbage now and then, until cancelled."""
    not_before = trio.current_time()
    full_at = not_before + FULL_COLLECTION_SECONDS
    while True:
        await trio.sleep(GARBAGE_LOOK_SECONDS)
        began = trio.current_time()
        if began >= full_at:
            full_at = began + FULL_COLLECTION_SECONDS
            gc.unfreeze()
        elif began < not_before or gc.get_count()[0] >= MAX_NEW_OBJECTS:
            gc.freeze()
            continue
        was_worth_it = gc.collect() >= WORTHWHILE_OBJECTS
        gc.freeze()
        ended = trio.current_time()
        not_before = ended if was_worth_it else ended + (ended - began) / MAX_LOOKING_SHARE


def raise_open_files_limit() -> None:
    """Raise the soft limit to the hard one, as Java and Go do. Where the kernel refuses that, it stays as it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_limit() -> float:
    """Return the soft limit, which holds; infinite if there is none."""
    return _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def open_files_limit_of_run() -> float:
    """Return the limit that `run` would have if it were started as this process was."""
    return _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def most_connections(open_files: float) -> float:
    """Return how many connections so many open files allow."""
    return max((open_files - SPARE_DESCRIPTORS) // DESCRIPTORS_PER_CONNECTION, 1) if open_files < math.inf else math.inf


def too_few_open_files(open_files: float, max_connections: int) -> str | None:
    """Return a warning, ready to print, if so many open files allow much fewer connections
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
