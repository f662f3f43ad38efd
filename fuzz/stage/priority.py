"""Priorities where cores are few: the attackers go last, the sidecars and the victims before them.

A priority is a thread's own on Linux and inherited, so it is given at the start of a process. Only root may undo one,
or go before everybody else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NICE_OF_ATTACKERS = 10
ENVIRONMENT = "FUZZ_NICE"
"""The nice value of sidecars and victims; 0 by default. If it is negative, the attackers have 0. `REALTIME`: victims
and their control have a core whenever they want it (SCHED_RR), and the sidecar under attack has another to itself, as
in a container with a core of its own: what is measured then is the sidecar's doing, and not that of whoever else is on
the machine."""
REALTIME = "realtime"
CORES = frozenset(os.sched_getaffinity(0))
OWN_CORE = min(CORES)
FIRST_NICE = -20
"""The niceness of a sidecar on its own core, where others may come: nothing is left of it to them. It has no real-time
priority: Linux takes 50 ms of each second from who has one and never rests (`sched_rt_runtime_us`), and lets one thread
of it wait for another for 100 ms (`sched_rr_timeslice_ms`)."""
_FIRST = str(FIRST_NICE)
_BEFORE_SESSIONS = (
    "sh",
    "-c",
    f'[ ! -e /proc/self/autogroup ] || echo {_FIRST} >/proc/self/autogroup; exec "$@"',
    "sh",
)
"""A command that runs another with this niceness in its whole session: where Linux shares cores by session first
(`sched_autogroup_enabled`), a nice value counts within one session alone."""


def be_nice() -> None:
    """Lower the attackers' priority, if that can be undone for the others."""
    if os.geteuid() != 0:
        return
    realtime = _wanted() == REALTIME
    if realtime and len(CORES) > 1:
        os.sched_setaffinity(0, CORES - {OWN_CORE})
    go_before_all = realtime or int(_wanted()) < 0
    os.nice((0 if go_before_all else NICE_OF_ATTACKERS) - os.nice(0))


def before_attackers(command: Sequence[str], *, attacked: bool = False) -> list[str]:
    """Return the command as it is run by processes that shall not go last; `attacked`: by the sidecar under attack."""
    if os.geteuid() != 0:
        return list(command)
    if _wanted() == REALTIME:
        if attacked and len(CORES) > 1:
            return [*_BEFORE_SESSIONS, "taskset", "--cpu-list", str(OWN_CORE), "nice", "-n", _FIRST, *command]
        return ["chrt", "--rr", "1", *command]
    difference = int(_wanted()) - os.nice(0)
    return ["nice", "-n", str(difference), *command] if difference else list(command)


def _wanted() -> str:
    return os.environ.get(ENVIRONMENT, "0")
