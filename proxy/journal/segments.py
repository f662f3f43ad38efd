"""The journal's files: one gzip file while it is written, and the directory of those that have ended.

Blocking; runs in the writer's thread, and once at start. Knows bytes and lines, not their content. Invariants:
after `flush` everything written is on its way to the disk and can be decompressed, whatever becomes of the process; a
file without `.open` in its name is never written to again; only files with our broker's name are touched.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


GZIP_WINDOW_BITS = 31
"""The zlib parameter for a gzip header around a window of 32 KiB."""
LEVEL = 9
"""The level of compression: an eighth smaller than at 6, for 0.03 % of a CPU at 100 active partitions (measured)."""
MEMORY_LEVEL = 4
"""The memory level of zlib, whose codes are then fitted to every thousand symbols: 2 to 4 % smaller than at zlib's
default of 8, since the lists of one journal line are unlike each other (measured)."""


class Segment:
    """Raises OSError from every method but `lines` and `size_bytes`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self.size_bytes = 0
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL)

    def write(self, lines: bytes) -> None:
        """Write whole lines."""
        self.lines += lines.count(b"\n")
        self._put(self._compressor.compress(lines))

    def is_removed(self) -> bool:
        """Return True if no directory has the file any more: writes are lost without an error.

        A file that was given another name is not removed.
        """
        return os.fstat(self._descriptor).st_nlink == 0

    def flush(self) -> None:
        self._put(self._compressor.flush(zlib.Z_SYNC_FLUSH))

    def close(self) -> None:
        """Finish the file, so that its end is known to be one, and sync it: after a power cut a file that was renamed
        to its final name would otherwise be there with 0 bytes."""
        try:
            self._put(self._compressor.flush(zlib.Z_FINISH))
            os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def abandon(self) -> None:
        """Close it as it is: the disk refused it."""
        os.close(self._descriptor)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            self.size_bytes += written
            view = view[written:]


CLOSED_SUFFIX = ".ndjson.gz"
OPEN_SUFFIX = ".open.ndjson.gz"


def run_name(started_seconds: float) -> str:
    """Return the part of file names that stands for a run: the time of its start. Files sort by it."""
    return datetime.fromtimestamp(started_seconds, UTC).strftime("%Y%m%dT%H%M%SZ")


_NAME = re.compile(r"(?P<run>\d{8}T\d{6}Z)-(?P<number>\d+)(?:\.open)?\.ndjson\.gz")
"""The part of a name that comes after the broker."""


class _Place(NamedTuple):
    """A file's place in the order of its broker's files. Files with foreign names come last, by their names."""

    is_foreign: bool
    run: str
    number: int


class SegmentDirectory:
    def __init__(self, directory: Path, *, broker: int, run: str) -> None:
        self.directory = directory
        self._prefix = f"journal-{broker}-"
        self._run = run
        self._number = 0

    def prepare(self) -> None:
        """Make the directory, try to write in it, close files of a killed run. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        probe = self.directory / f".{self._prefix}probe"
        probe.write_bytes(b"")
        probe.unlink()
        for path in self.directory.glob(f"{self._prefix}*{OPEN_SUFFIX}"):
            self.close(path)

    def next_open(self) -> Path:
        """Return the path of the next file, not there yet."""
        last = max((place for path in self._all() if not (place := self._place(path)).is_foreign), default=None)
        if last is not None and not self._number:
            # If the newest run in the directory did not begin before ours, the clock was set back since, or both began
            # in the same second. Then ours goes on with that run's names. Otherwise our files would be the oldest of
            # all and the first to be removed.
            self._run = max(self._run, last.run)
        self._number = max([self._number, *(self._place(path).number for path in self._all(self._run))]) + 1
        return self.directory / f"{self._prefix}{self._run}-{self._number:06d}{OPEN_SUFFIX}"

    def closed(self, path: Path) -> Path:
        """Return the name that an open file gets."""
        return path.with_name(path.name.removesuffix(OPEN_SUFFIX) + CLOSED_SUFFIX)

    def close(self, path: Path) -> None:
        """Give an open file its name. Another process may have done so: a sidecar that took over while we drain."""
        with suppress(FileNotFoundError):
            path.rename(self.closed(path))

    def prune(self, keep_bytes: int) -> int:
        """Remove the oldest closed files until all take no more than `keep_bytes`; return how many.

        The open one counts, and stays.
        """
        sizes = {path: _size(path) for path in self._all()}
        excess, removed = sum(filter(None, sizes.values())) - keep_bytes, 0
        for path in sorted(sizes, key=self._place):
            if excess <= 0:
                break
            size = sizes[path]
            if size is None or path.name.endswith(OPEN_SUFFIX):
                continue
            path.unlink(missing_ok=True)
            excess -= size
            removed += 1
        return removed

    def _all(self, run: str = "") -> list[Path]:
        """Return the files of our broker, the open ones as well: the names of both end in `.ndjson.gz`."""
        return list(self.directory.glob(f"{self._prefix}{run}*{CLOSED_SUFFIX}"))

    def _place(self, path: Path) -> _Place:
        name = path.name.removeprefix(self._prefix)
        found = _NAME.fullmatch(name)
        if found is None:
            return _Place(is_foreign=True, run=name, number=0)
        return _Place(is_foreign=False, run=found["run"], number=int(found["number"]))


def _size(path: Path) -> int | None:
    """Return a file's size; None if the path is not a regular file, or the file is gone."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
