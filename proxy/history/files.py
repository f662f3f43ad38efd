"""The files of a history: appended to by whole lines, bounded by one rename, and read.

Blocking. No file stays open: two processes may write during a hand-over, and files that something else moved away are
made anew. Invariants: a file and its predecessor together have no more than their bound and one batch; a line that a
crash or a full disk cut ends before the next begins; a file belongs to the owner of its directory, whoever writes
it. Nothing is synced: after a power cut the lines of the last half minute may be missing.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigurationError
from ..files.reading import has_entry, read_bytes
from .records import KEPT, ReadBack, read_back, time_of

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

MAX_CHANGES_BYTES, MAX_CONDITIONS_BYTES = 8 * 2**20, 2 * 2**20
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LINE_BYTES = 64 * 1024
"""More than any line has."""


class HistoryFile(NamedTuple):
    """A file with its predecessor."""

    path: Path
    most_bytes: int
    """The bound of both together."""

    @property
    def old(self) -> Path:
        return self.path.with_name(f"{self.path.name}.old")

    def append(self, lines: bytes, now: datetime) -> None:
        """Write whole lines. Raises OSError; then the file is as before, but for whole lines that a full disk took."""
        with suppress(FileNotFoundError):
            if now.timestamp() - self.old.stat().st_mtime > KEPT.total_seconds():
                self.old.unlink()
        descriptor = self._opened()
        try:
            size = os.fstat(descriptor).st_size
            if size and (2 * (size + len(lines)) > self.most_bytes or _is_old(descriptor, now)):
                self.path.rename(self.old)
                os.close(descriptor)
                descriptor, size = self._opened(), 0
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                lines = b"\n" + lines
            _write(descriptor, lines)
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """Open the file, or make it. Raises OSError."""
        descriptor = os.open(self.path, _FLAGS, 0o600)
        try:
            _prepare(descriptor, self.path.parent)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


def _prepare(descriptor: int, directory: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "expected a file, found something else")
    if os.geteuid() == 0:
        owner = directory.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _write(descriptor: int, lines: bytes) -> None:
    """Write all bytes, or take back those that a full disk took."""
    left, before = memoryview(lines), os.fstat(descriptor).st_size
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        if os.fstat(descriptor).st_size == before + len(lines) - len(left):  # no other process has written since
            with suppress(OSError):
                os.ftruncate(descriptor, before)
        raise


def _is_old(descriptor: int, now: datetime) -> bool:
    first = time_of(os.pread(descriptor, _LINE_BYTES, 0).partition(b"\n")[0])
    return first is not None and now - first > KEPT


def files_in(directory: Path, broker_id: int) -> tuple[HistoryFile, HistoryFile]:
    """Return the file of changes and that of conditions."""
    return (
        HistoryFile(directory / f"history-{broker_id}.jsonl", MAX_CHANGES_BYTES),
        HistoryFile(directory / f"conditions-{broker_id}.jsonl", MAX_CONDITIONS_BYTES),
    )


class Stored(NamedTuple):
    found: ReadBack
    problems: list[str]
    """Files that cannot be read, ready to print."""


def read(directory: Path, broker_id: int, since: datetime, most_bytes: int, waiting: bytes = b"") -> Stored:
    """Read a history from a moment on. `waiting`: lines that are not written yet. Never raises for files that cannot
    be read."""
    contents, problems = [waiting], []
    for file in files_in(directory, broker_id):
        for path in (file.old, file.path):
            try:
                if has_entry(path):
                    contents.append(read_bytes(path, most_bytes=2 * file.most_bytes))
            except ConfigurationError as error:
                problems.append(str(error))
    return Stored(read_back(contents, since, most_bytes), problems)
