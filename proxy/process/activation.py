"""Listening sockets that systemd opened before the process began (sd_listen_fds(3)).

A broker that dials while the sidecar is being restarted waits in such a socket's queue instead of being refused.
Invariant: each socket is taken by the one setting that names its address, or the process does not start.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ..config.settings_values import Address
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

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

    def take(self, address: Address) -> socket.socket | None:
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
