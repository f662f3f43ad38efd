"""control.sock: bound before traffic starts, served like the public pages, for trusted processes alone.

Blocking but for the HTTP server's part. Peers are identified by SO_PEERCRED (unix(7)). Invariant: the socket's path
never leads to a sidecar that has been replaced: its successor inherits the listening socket itself.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigurationError
from ..http.request_checks import Bounds, HttpStatistics
from ..http.server import HttpServer
from .directory import KEY, control_path, prepare_directory, short_path

if TYPE_CHECKING:
    import trio

    from ..logs.log import Log


_BACKLOG = 128
_UNUSABLE_HERE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENOSPC}
)
"""The errors of a directory that cannot be created. The sidecar then relays without private sockets, and logs it."""


def open_control(directory: Path, *, log: Log, inherited: socket.socket | None = None) -> HttpServer | None:
    """Return the server of control.sock, bound; None, with a line in the log, where the directory cannot be made.

    A start that failed would end replication; commands and the guard only lose their private way. `inherited` is the
    socket of the previous process.

    Raises ConfigurationError if the directory is another user's, or if another sidecar listens there.
    """
    try:
        prepare_directory(directory)
        listener = _listening(directory) if inherited is None else inherited
    except OSError as error:
        if error.errno not in _UNUSABLE_HERE:
            raise ConfigurationError(f"{KEY}: {directory}: {error.strerror or error}") from error
        log.warning("control_unavailable", directory=str(directory), error=error.strerror)
        return None
    listener.settimeout(0)

    def name_peer(accepted: socket.socket) -> str | None:
        peer = peer_process(accepted)
        if peer.is_trusted:
            return str(peer)
        log.warning("control_refused", peer=str(peer), expected=f"user {os.geteuid()} or root")
        return None

    return HttpServer(listener, log=log, bounds=Bounds(), statistics=HttpStatistics(), name_peer=name_peer)


def _listening(directory: Path) -> socket.socket:
    """Listen on the socket. Raises OSError, or ConfigurationError if a sidecar listens there."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(control_path(directory)) as path:
            _remove_stale(path, directory)
            listener.bind(path)
        control_path(directory).chmod(0o600)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_stale(path: str, directory: Path) -> None:
    """Remove the socket of a sidecar that ended. Raises ConfigurationError if a sidecar listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            Path(path).unlink()
            return
        raise ConfigurationError(
            f"{KEY}: {directory}: {peer_process(probe)} serves there: --take-over replaces it; a sidecar of another "
            f"cluster's broker needs a [control] directory of its own"
        )


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
        return f"pid {self.pid}, uid {self.user}"


def peer_process(sock: socket.socket | trio.socket.SocketType) -> PeerProcess:
    """Return the process at the other end of a connected unix socket. Raises OSError."""
    pid, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return PeerProcess(pid, user)
