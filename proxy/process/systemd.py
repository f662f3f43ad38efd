"""Talks to systemd where it supervises the process: sockets that it opened, and whether the process is alive.

Sockets (sd_listen_fds(3)): a broker that dials while the sidecar is being restarted waits in such a socket's queue
instead of being refused. Invariant: each socket is taken by the one setting that names its address, or the process does
not start.

Notifications (sd_notify(3)): ready, alive, stopping.

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

from ..config.settings_values import Address
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping


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


FIRST_DESCRIPTOR = 3
_NAMES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class PassedSockets:
    """The sockets, by the address at which each listens as getsockname(2) tells it."""

    def __init__(self, listening: dict[Address, socket.socket] | None = None) -> None:
        self._listening = listening or {}

    @classmethod
    def of(cls, environ: MutableMapping[str, str], *, first: int = FIRST_DESCRIPTOR) -> PassedSockets:
        """Return what was passed to this process. The variables are removed, since they do not hold for processes that
        it starts.

        Raises ConfigurationError: the variables are wrong, or a socket is none that listens for TCP.
        """
        process, count, _ = (environ.pop(name, "") for name in _NAMES)
        if process != str(os.getpid()) or not count:
            return cls()
        if not (count.isascii() and count.isdigit() and len(count) < 5):
            raise ConfigurationError(f"environment: LISTEN_FDS: expected how many sockets were passed, found {count!r}")
        passed = cls()
        for descriptor in range(first, first + int(count)):
            sock = _listening(descriptor)
            address = Address(*sock.getsockname()[:2])
            if address in passed._listening:
                for each in (sock, *passed._listening.values()):
                    each.close()
                raise ConfigurationError(
                    f"systemd passed two sockets that listen on {address}: expected one ListenStream line of each"
                )
            passed._listening[address] = sock
        return passed

    def take_socket(self, address: Address) -> socket.socket | None:
        """Return the socket that listens there; None if none does."""
        return self._listening.pop(address, None)

    def require_none_left(self) -> None:
        """Refuse sockets that no setting has taken: a peer that dials one would wait for ever. Raises
        ConfigurationError if a socket was taken by no setting: a peer that dials it would wait for ever."""
        for address in self._listening:
            raise ConfigurationError(
                f"systemd passed a socket that listens on {address}, which no setting names: expected the ListenStream "
                "lines of the .socket unit to be addresses of proxy.toml, by number"
            )


def _listening(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
        sock = socket.socket(fileno=descriptor)
    except OSError:
        raise _useless(descriptor) from None
    inet = sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM
    if not (inet and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        sock.close()
        raise _useless(descriptor)
    sock.settimeout(0)
    return sock


def _useless(descriptor: int) -> ConfigurationError:
    return ConfigurationError(
        f"systemd passed descriptor {descriptor}, which is no TCP socket that listens: expected ListenStream lines "
        "with addresses, and Accept=no, in the .socket unit"
    )
