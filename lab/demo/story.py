"""The steps of the demo, in order, and the figures they amount to.

Knows no broker and no terminal: a stage is moved along, a teller is told.
Invariant: each phase is judged against the quota that was in force in it, from 250 ms after the file changed
(the promise) to the next change.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import trio

from ..errors import LabError
from ..measuring.figures import Event, within, worst_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .stage import Check, Stage

MIB = 1 << 20
TAKES_EFFECT_SECONDS = 0.25
POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Script:
    """Quotas in bytes per second; `raise_at` is the share of the bytes after which the quota is raised."""

    first: float = 4.0 * MIB
    raised: float = 16.0 * MIB
    raise_at: float = 1 / 3
    patience_seconds: float = 240.0


@dataclass(frozen=True, slots=True)
class Phase:
    """The traffic that passed under one quota. The mean and the worst second are ratios over it."""

    quota_bytes_per_second: float
    total_bytes: int
    seconds: float
    mean_over_quota: float
    worst_second_over_quota: float


@dataclass(frozen=True, slots=True)
class Ending:
    phases: Sequence[Phase]
    checks: Sequence[Check]
    total_bytes: int
    seconds: float

    @property
    def well(self) -> bool:
        return all(check.holds for check in self.checks)


class Teller(Protocol):
    """The output that shows the story."""

    def say(self, line: str) -> None:
        """Print that a step was taken."""

    async def show(self, stage: Stage, *, started: float, quota: float) -> None:
        """Draw the move as it goes on."""


async def play(stage: Stage, script: Script, teller: Teller) -> Ending:
    """Move, raise the quota on the way, wait for the end and check. Raises LabError if it takes far too long."""
    teller.say(await stage.set_quota(script.first))
    # Times are taken before a stage is asked: it may answer some time after it has begun, or after a file has changed.
    started = time.monotonic()
    await stage.begin()
    marks = [(started, script.first)]
    with trio.move_on_after(script.patience_seconds) as patience:
        while not await stage.is_over():
            moved = sum(event.size_bytes for event in stage.seen())
            if len(marks) == 1 and moved >= stage.total_bytes * script.raise_at:
                marks.append((time.monotonic(), script.raised))
                teller.say(await stage.set_quota(script.raised))
            await teller.show(stage, started=started, quota=marks[-1][1])
            await trio.sleep(POLL_SECONDS)
    if patience.cancelled_caught:
        raise LabError(f"the move is not over after {script.patience_seconds:.0f} s")
    ended = time.monotonic()
    await teller.show(stage, started=started, quota=marks[-1][1])
    teller.say("moved; comparing the replicas byte for byte")
    seen = stage.seen()
    return Ending(
        phases=_phases(seen, marks),
        checks=await stage.checks(),
        total_bytes=sum(event.size_bytes for event in seen),
        seconds=(seen[-1].t if seen else ended) - started,
    )


def _phases(seen: Sequence[Event], marks: Sequence[tuple[float, float]]) -> list[Phase]:
    ends = [at for at, _ in marks[1:]] + [seen[-1].t if seen else marks[-1][0]]
    phases = []
    for index, ((start, quota), end) in enumerate(zip(marks, ends, strict=True)):
        settled = start if index == 0 else start + TAKES_EFFECT_SECONDS
        # A range ends before its end, and the last phase ends with the last bytes.
        found = within(seen, settled, math.inf if index == len(marks) - 1 else end)
        total = sum(event.size_bytes for event in found)
        seconds = max(end - settled, 1e-9)
        worst = worst_window(found, 1.0) if found else 0
        phases.append(Phase(quota, total, seconds, total / seconds / quota, worst / quota))
    return phases
