"""Tells systemd, where it supervises the process, whether that is ready, alive or stopping (sd_notify(3)).

Each is one datagram to the socket that the environment variable NOTIFY_SOCKET names; without that variable no
message is sent. Invariants: no call blocks or raises, even if the socket is not read. A message that the socket does
not take is sent again with a later beat. No message needs a new descriptor, since a process that has none left has to
stay alive.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ServiceManager:
    def __init__(self, environ: Mapping[str, str], *, now: Callable[[], float] = monotonic) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._alive_every = _watchdog_seconds(environ) / 2
        self._alive_said = -self._alive_every
        self._now = now
        self._unsent: list[str] = []
        self._socket = _opened() if self._address else None

    def close(self) -> None:
        """Send nothing from now on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ready(self) -> None:
        self._say("READY=1")

    def stopping(self) -> None:
        self._say("STOPPING=1")

    def replaced_by(self, process: int) -> None:
        """Tell systemd that another process takes this one's place, so that it supervises that one."""
        self._say(f"MAINPID={process}")

    def beat(self) -> None:
        """Tell systemd twice in each WatchdogSec that the loop turns; send nothing if the unit sets no WatchdogSec."""
        now = self._now()
        if self._alive_every and now - self._alive_said >= self._alive_every:
            self._alive_said = now
            self._say("WATCHDOG=1")
        else:
            self._send()

    def _say(self, state: str) -> None:
        if state not in self._unsent:
            self._unsent.append(state)
        self._send()

    def _send(self) -> None:
        if self._socket is None:
            self._unsent.clear()
        with suppress(OSError, ValueError):
            while self._unsent and self._socket is not None:
                self._socket.sendto(self._unsent[0].encode(), self._address)
                del self._unsent[0]


def _opened() -> socket.socket | None:
    try:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:
        return None
    opened.settimeout(0)
    return opened


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """Return the unit's WatchdogSec in seconds; 0 if the unit sets none, or if WATCHDOG_PID names another process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and len(text) < 20 else 0.0


def refuse_passed_sockets(environ: Mapping[str, str]) -> None:
    """Raise ConfigurationError if systemd passed sockets (sd_listen_fds(3)): their ports are its own, so the sidecar
    could not listen there."""
    if environ.get("LISTEN_PID") == str(os.getpid()):
        raise ConfigurationError(
            "environment: LISTEN_FDS: expected no sockets of systemd's, which 0.2.0 takes no more; disable the "
            ".socket unit (systemctl disable --now kafka-throttle-sidecar.socket) and start the service itself"
        )
