"""Maps signals to actions. Only the second request to end ends the process without a drain.

Knows who reloads and who drains, not how. Invariant: no signal waits for what an earlier one began.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractContextManager

    from ..logs.log import Log

    SignalReceiver = AsyncIterator[int]

DRAINING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
IGNORED_SIGNALS = (
    signal.SIGUSR1, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO,
)  # fmt: skip
"""The signals that end a process by default and mean nothing to a sidecar. Operators and log rotators send some of them
by habit, so the sidecar logs and ignores them."""


def receive_signals() -> AbstractContextManager[SignalReceiver]:
    """Receive every signal that has a meaning here or would end the process by default."""
    return trio.open_signal_receiver(signal.SIGHUP, signal.SIGUSR2, *DRAINING_SIGNALS, *IGNORED_SIGNALS)


async def follow_signals(
    received: SignalReceiver,
    reload: Callable[[str], Awaitable[object]],
    drain: Callable[[str], object],
    log: Log,
    start_next: Callable[[], object] = lambda: None,
) -> None:
    """Reload the quotas at SIGHUP. SIGHUP reloads the quotas. SIGUSR2 starts a process that takes over. SIGTERM, SIGINT
    and SIGQUIT drain, and a second of them ends the process at once. A signal that would end the process by
    default, and means nothing to a sidecar, is logged once and ignored.

    While a reload hangs (the disk does not answer), other signals are still served, and at most one more reload waits.
    """
    asked, asking = trio.open_memory_channel[None](1)

    async def reload_when_asked() -> None:
        async for _ in asking:
            await reload("SIGHUP")

    async with trio.open_nursery() as reloading:
        reloading.start_soon(reload_when_asked)
        told: set[int] = set()
        async for number in received:
            if number == signal.SIGHUP:
                with suppress(trio.WouldBlock):
                    asked.send_nowait(None)
            elif number == signal.SIGUSR2:
                start_next()
            elif number in DRAINING_SIGNALS:
                drain(signal.Signals(number).name)
                for deadly in DRAINING_SIGNALS:
                    signal.signal(deadly, signal.SIG_DFL)
            elif number not in told:
                told.add(number)
                log.warning("signal_ignored", signal=signal.Signals(number).name)
