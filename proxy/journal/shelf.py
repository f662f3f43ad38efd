"""The journal's directory: what files are called, what a crash left open, how much there may be.

Blocking; runs in the writer's thread, and once at start. Knows nothing of lines.
Invariant: a file without `.open` in its name is never written to again; only files with our broker's name are
touched.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CLOSED_SUFFIX = ".ndjson.gz"
OPEN_SUFFIX = ".open.ndjson.gz"


def run_name(started_seconds: float) -> str:
    """Return the start of a run as part of its files' names: they sort by it."""
    return datetime.fromtimestamp(started_seconds, UTC).strftime("%Y%m%dT%H%M%SZ")


class Shelf:
    def __init__(self, directory: Path, *, broker: int, run: str) -> None:
        self.directory = directory
        self._prefix = f"journal-{broker}-"
        self._run = run
        self._number = 0

    def prepare(self) -> None:
        """Make the directory, try to write in it, close what a killed run left. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        probe = self.directory / f".{self._prefix}probe"
        probe.write_bytes(b"")
        probe.unlink()
        for path in self.directory.glob(f"{self._prefix}*{OPEN_SUFFIX}"):
            self.close(path)

    def next_open(self) -> Path:
        """Return the path of the next file, not there yet."""
        while True:
            self._number += 1
            path = self.directory / f"{self._prefix}{self._run}-{self._number:06d}{OPEN_SUFFIX}"
            if not path.exists() and not self.closed(path).exists():
                return path

    def closed(self, path: Path) -> Path:
        """Return the name that an open file gets."""
        return path.with_name(path.name.removesuffix(OPEN_SUFFIX) + CLOSED_SUFFIX)

    def close(self, path: Path) -> None:
        """Give an open file its name. Somebody else may have done so: a sidecar that took over while we drain."""
        with suppress(FileNotFoundError):
            path.rename(self.closed(path))

    def prune(self, keep_bytes: int) -> int:
        """Remove the oldest closed files until all take no more than `keep_bytes`; return how many.

        The open one counts, and stays.
        """
        sizes = {path: _size(path) for path in self.directory.glob(f"{self._prefix}*{CLOSED_SUFFIX}")}
        excess, removed = sum(sizes.values()) - keep_bytes, 0
        for path in sorted(path for path in sizes if not path.name.endswith(OPEN_SUFFIX)):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= sizes[path]
            removed += 1
        return removed


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
