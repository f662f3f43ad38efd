"""The invariant, and what breaks it: **the victim never notices**.

Looks at a stage, again and again; decides nothing about what was sent. Invariant: what the machine did to everybody,
the control as well, is not held against the sidecar.
"""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import trio

from lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from .stage.stage import Stage

MIB = 1024 * 1024
DYING_SECONDS = 0.5


class Broken(enum.StrEnum):
    """The ways in which the invariant breaks, the worst first."""

    WRONG_BYTES = "wrong bytes"
    DIED = "died"
    STALLED = "stalled"
    CUT_OFF = "the victim was cut off"
    HEALTHZ = "healthz did not answer"
    NOT_RECOVERED = "did not recover"
    MEMORY = "memory"
    SLOW = "slow"
    DEFECT = "a defect was logged"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The delays that do not count as noticed.

    Args:
        slow_ms: a fetch of the victim's may take so much more than the control's worst within a second of it.
        stall_seconds: a fetch that takes so long is not slow but stalled.
        memory_bytes: resident, of the sidecar.
    """

    slow_ms: float = 100.0
    stall_seconds: float = 3.0
    memory_bytes: int = 400 * MIB


@dataclass(frozen=True, slots=True)
class Breach:
    """A break of the invariant. `detail` has a traceback if there is one."""

    how: Broken
    detail: str
    seconds_ago: float = 0.0
    """The time since when, before it was seen."""

    @property
    def signature(self) -> str:
        """The way and the innermost frame of the traceback, equal for breaches with the same cause."""
        frames = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', self.detail)
        errors = re.findall(
            r"^[ |+-]*(?:\w+\.)*(\w+(?:Error|Exception|Group|Interrupt)\b)[:\s]", self.detail, re.MULTILINE
        )
        place = (
            "" if not frames else f" {frames[-1][0].rpartition('site-packages/')[2]}:{frames[-1][1]} {frames[-1][2]}"
        )
        return f"{self.how.value}{place}{' ' + errors[-1] if errors else ''}"


class Watch:
    """Looks at the stage and keeps what it has seen: the memory's peak, the log as far as it was read."""

    def __init__(self, stage: Stage, bounds: Bounds) -> None:
        self._stage = stage
        self._bounds = bounds
        self._log = LogReader(stage.sidecar.process.output)
        self._log.skip()
        self.first_bytes = self.peak_bytes = self.last_bytes = self._resident_bytes()
        self._cut_at = 0.0
        self.ended: dict[str, int] = self._log.ended
        """Connections by the cause they ended by, as far as they were logged."""

    def look(self) -> Breach | None:
        """Return the worst breach now, slowness apart; None if there is none."""
        stage, victim = self._stage, self._stage.victim
        if stage.restarting:
            return None
        for observed in victim.observed.values():
            if observed.wrong and observed is not victim.observed["healthz"]:
                return Breach(Broken.WRONG_BYTES, observed.wrong[0])
        if not stage.sidecar.process.running:
            status = stage.sidecar.process.exit_status
            return Breach(Broken.DIED, f"exit status {status}\n{stage.sidecar.last_words()}")
        self.last_bytes = self._resident_bytes()
        self.peak_bytes = max(self.peak_bytes, self.last_bytes)
        return self._stalled() or self._lost() or self._log_defect() or self._grown()

    def _stalled(self) -> Breach | None:
        victim = self._stage.victim
        for name, observed in victim.observed.items():
            if observed.pending_us > self._bounds.stall_seconds * 1e6:
                how = Broken.HEALTHZ if name == "healthz" else Broken.STALLED
                waits = observed.pending_us / 1e6 + trio.current_time() - victim.heard_at
                return Breach(how, f"{name}: nothing for {waits:.1f} s; {self._cpu()}", seconds_ago=waits)
        if trio.current_time() - victim.heard_at > 3 * self._bounds.stall_seconds:
            return Breach(Broken.STALLED, "the victim itself says nothing any more")
        return None

    def _lost(self) -> Breach | None:
        for name, observed in self._stage.victim.observed.items():
            if name == "healthz":
                if len(observed.lost) + len(observed.wrong) >= 3:
                    return Breach(Broken.HEALTHZ, (observed.lost + observed.wrong)[-1])
            elif observed.lost and self._still_runs():
                return Breach(Broken.CUT_OFF, f"{name}: {observed.lost[0]}", seconds_ago=DYING_SECONDS)
        return None

    def _still_runs(self) -> bool:
        """True if the sidecar still runs some time after a connection ended; if it does not, that is the breach."""
        now = trio.current_time()
        self._cut_at = self._cut_at or now
        return now - self._cut_at > DYING_SECONDS

    def _log_defect(self) -> Breach | None:
        self._log.read_on()
        return Breach(Broken.DEFECT, self._log.defects.pop()) if self._log.defects else None

    def _grown(self) -> Breach | None:
        if self.last_bytes <= self._bounds.memory_bytes:
            return None
        return Breach(Broken.MEMORY, f"{self.last_bytes / MIB:.0f} MiB, {self.first_bytes / MIB:.0f} MiB before")

    def slowest(self) -> Breach | None:
        """Return by how much the victim's worst fetch was later than the control's at that time, if it is a breach."""
        excess, worst = 0.0, None
        for bucket, ms in self._stage.victim.late(self._bounds.slow_ms):
            machine = self._stage.control.worst_ms_about(bucket)
            if ms - machine > max(excess, self._bounds.slow_ms):
                excess = ms - machine
                worst = f"{ms:.0f} ms, while the control's worst was {machine:.0f} ms; {self._cpu()}"
        return None if worst is None else Breach(Broken.SLOW, worst)

    def _cpu(self) -> str:
        try:
            return f"the sidecar has used {self._stage.sidecar.process.cpu_seconds():.1f} s of CPU"
        except (LabError, psutil.Error):
            return "the sidecar has ended"

    def _resident_bytes(self) -> int:
        try:
            return self._stage.sidecar.process.resident_bytes()
        except (LabError, psutil.Error):
            return 0


class LogReader:
    """A reader of a sidecar's log as it grows: why connections ended, and defects that cost one of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._left = b""
        self.ended: dict[str, int] = {}
        self.defects: list[str] = []
        self.events: dict[str, int] = {}

    def skip(self) -> None:
        """Skip what is there already."""
        self._at = self._path.stat().st_size if self._path.exists() else 0

    def read_on(self) -> None:
        """Read what has come since."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        self._at += len(data)
        *lines, self._left = (self._left + data).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        if not isinstance(said, dict):
            return
        event = str(said.get("event"))
        self.events[event] = self.events.get(event, 0) + 1
        if event == "connection_closed":
            cause = str(said.get("cause"))
            self.ended[cause] = self.ended.get(cause, 0) + 1
        defect = said.get("cause") == "internal_error" or event in (
            "http_failed",
            "task_restarted",
            "connection_failed",
        )
        if defect:
            self.defects.append(f"{event}: {said.get('error')}\n{said.get('exception', '')}")
