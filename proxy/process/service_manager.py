"""What systemd is told where it supervises the process: ready, alive, stopping (sd_notify(3)).

One datagram each to the socket that NOTIFY_SOCKET names; without one nothing is said. Invariant: nothing blocks and
nothing raises; a manager that does not listen is its own affair.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ServiceManager:
    def __init__(self, environ: Mapping[str, str], *, now: Callable[[], float] = monotonic) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._alive_every = _watchdog_seconds(environ) / 2
        self._alive_said = -self._alive_every
        self._now = now

    def ready(self) -> None:
        self._say("READY=1")

    def stopping(self) -> None:
        self._say("STOPPING=1")

    def beat(self) -> None:
        """Say that the loop turns, twice in each WatchdogSec of the unit; nothing if it has none."""
        now = self._now()
        if self._alive_every and now - self._alive_said >= self._alive_every:
            self._alive_said = now
            self._say("WATCHDOG=1")

    def _say(self, state: str) -> None:
        if not self._address:
            return
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.settimeout(0)
            to.sendto(state.encode(), self._address)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """The unit's WatchdogSec; 0: it has none, or another process is meant."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and len(text) < 20 else 0.0
