"""A wall clock that is stepped under a running sidecar: `clock.c`, built by whatever C compiler there is."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from lab.sidecars.sidecars import restarted_by

from .scene import QUOTA

if TYPE_CHECKING:
    from .scene import Scene

HOUR = 3600
STEPS = (HOUR, -HOUR)
CLOSE_SECONDS = 60.0
"""How far a line of the log may be from the clock that it was written by."""


async def clock_stepped(scene: Scene) -> None:
    """The wall clock of the leader's sidecar goes an hour ahead, and then two hours back. It goes by it in what it
    logs; quotas, journal and watchdog go on."""
    clock = Clock(scene.scratch)
    failed = len(scene.leader.log_lines('"journal_failed"'))
    async with restarted_by(scene.leader, *clock.command):
        for number, seconds in enumerate(STEPS):
            clock.step(seconds)
            await trio.sleep(3)
            await scene.move.set_quota(QUOTA - 1 - number)
            assert abs(_last_reload(scene) - time.time() - seconds) < CLOSE_SECONDS
        assert len(scene.leader.log_lines('"journal_failed"')) == failed


class Clock:
    """What a program's wall clock is ahead of the system's, kept in a file of this folder. Invariant: the file has
    eight bytes at all times, as it is mapped into the program."""

    def __init__(self, folder: Path) -> None:
        self._ahead, self._library = folder / "ahead", folder / "clock.so"
        compiler = shutil.which("cc")
        assert compiler is not None, "a C compiler (cc) is needed to build clock.c"
        source = Path(__file__).with_name("clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source, "-ldl"], check=True)
        self._ahead.write_bytes(bytes(8))
        for file in (self._ahead, self._library):
            file.chmod(0o755)

    @property
    def command(self) -> list[str]:
        """What the program is to be run by."""
        return ["env", f"LD_PRELOAD={self._library}", f"CLOCK_AHEAD={self._ahead}"]

    def step(self, seconds: int) -> None:
        """So many seconds ahead of the system's from now on."""
        with self._ahead.open("r+b") as file:
            file.write(struct.pack("=q", seconds))


def _last_reload(scene: Scene) -> float:
    """When the leader's sidecar last took a new quota, in seconds since 1970 by its own clock."""
    line = json.loads(scene.leader.log_lines('"quotas_reloaded"')[-1])
    return datetime.fromisoformat(line["timestamp"]).timestamp()
