"""The directory that holds a sidecar's private sockets: where it is, and that no other user can enter it.

Blocking. Invariant: when `prepare_directory` returns, the directory belongs to this process' user and has mode 0700.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_BASE = Path("/run/kafka-throttle-sidecar")
CONTROL_NAME = "control.sock"
HANDOVER_NAME = "handover.sock"
KEY = "control.directory"
_MODE = 0o700


def default_directory(broker_id: int, environ: Mapping[str, str]) -> Path:
    """Return the directory of a broker's sidecar unless proxy.toml names another.

    It is below $RUNTIME_DIRECTORY, which systemd sets for a unit with ``RuntimeDirectory=`` (systemd.exec(5); the first
    of several), else below /run/kafka-throttle-sidecar.
    """
    base = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    return (Path(base) if base else DEFAULT_BASE) / str(broker_id)


def control_path(directory: Path) -> Path:
    """Return the path of the socket for commands and for the guard."""
    return directory / CONTROL_NAME


def handover_path(directory: Path) -> Path:
    """Return the path of the socket for hand-over."""
    return directory / HANDOVER_NAME


def prepare_directory(directory: Path) -> None:
    """Create the directory if it is missing, and make it private.

    Raises:
        ConfigurationError: it is no directory, or belongs to another user.
        OSError: it cannot be created here, for example on a read-only file system.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        directory.mkdir(mode=_MODE)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(f"{KEY}: {directory}: expected a directory, found something else")
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{KEY}: {directory}: expected a directory of user {os.geteuid()}, found one of user {status.st_uid}: "
            "its owner could take this broker's connections"
        )
    if stat.S_IMODE(status.st_mode) != _MODE:
        directory.chmod(_MODE)


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield another name of `path` that fits into a socket address, which has room for 107 bytes (unix(7)).

    Raises OSError if its directory cannot be opened.
    """
    descriptor = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
