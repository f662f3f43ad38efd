"""Signals that people and machines send by mistake or by habit: none of them ends a sidecar without a drain."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, ClassVar

import trio

from .quota_files import recovered
from .scene import Scene

if TYPE_CHECKING:
    from ..stage.stage import Stage

HARMLESS = (
    signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM, signal.SIGPIPE, signal.SIGWINCH, signal.SIGCONT,
    signal.SIGURG, signal.SIGCHLD, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO,
)  # fmt: skip
PAUSE_SECONDS = 0.1


class Signals(Scene):
    """Each of the harmless ones, and a storm of SIGHUP."""

    name: ClassVar[str] = "signals"

    modes: ClassVar[tuple[str, ...]] = ("none", "quotas")

    async def run(self, stage: Stage) -> None:
        """Run the scene. Raises NotRecoveredError."""
        for number in HARMLESS:
            self.doing = number.name
            stage.sidecar.process.signal(number)
            self.things += 1
            await trio.sleep(PAUSE_SECONDS)
        storm = self.scaled(2000)
        self.doing = f"{storm} SIGHUPs"
        for n in range(storm):
            stage.sidecar.process.signal(signal.SIGHUP)
            self.things += 1
            if n % 50 == 0:
                await trio.sleep(0.01)
        await recovered(stage.sidecar)
