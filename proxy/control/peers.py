"""Identifies the process at the other end of a unix socket (SO_PEERCRED, unix(7))."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import trio

_CREDENTIALS = struct.Struct("3i")


class PeerProcess(NamedTuple):
    """The process that connected, or that listens; its ids as this process' namespaces show them."""

    pid: int
    user: int

    @property
    def is_trusted(self) -> bool:
        """True if the process runs as this process' own user or as root."""
        return self.user in (os.geteuid(), 0)

    def __str__(self) -> str:
        return f"process {self.pid} of user {self.user}"


def peer_process(sock: socket.socket | trio.socket.SocketType) -> PeerProcess:
    """Return the process at the other end of a connected unix socket. Raises OSError."""
    pid, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return PeerProcess(pid, user)
