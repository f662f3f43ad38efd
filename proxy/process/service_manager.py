"""What systemd is told where it supervises the process: ready, alive, stopping (sd_notify(3)).

Each message is one datagram to the socket that the environment variable NOTIFY_SOCKET names; without that variable no
message is sent. Invariant: no call blocks or raises, also when nobody reads the socket.
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

    def replaced_by(self, process: int) -> None:
        """Another process goes on in this one's place."""
        self._say(f"MAINPID={process}")

    def beat(self) -> None:
        """Tell systemd twice in each WatchdogSec that the loop turns; send nothing if the unit sets no WatchdogSec."""
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
    """The unit's WatchdogSec in seconds; 0 if the unit sets none, or if WATCHDOG_PID names another process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and len(text) < 20 else 0.0
