"""Files and directories below a path, on any Hadoop file system: looked for, moved, removed, written.

Knows no table. Invariant: a text is there whole or not at all, and of several who create a file one alone does.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from .errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECURSIVE = _OVERWRITE = True


class Storage:
    """File operations below `root`, a path that Hadoop understands."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root.rstrip("/")
        # Spark's own way to the file system that a path names; PySpark has no public one.
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        context: Any = spark._jsc
        self._configuration = context.hadoopConfiguration()
        self._files = self._path(self.root).getFileSystem(self._configuration)

    def under(self, *names: str) -> str:
        return "/".join((self.root, *names))

    def exists(self, path: str) -> bool:
        """Whether there is something at this path, on whichever file system it names."""
        return bool(self._path(path).getFileSystem(self._configuration).exists(self._path(path)))

    def size(self, path: str) -> int | None:
        """Return the bytes of the file at this path, on whichever file system it names; None if there is none."""
        if not self.exists(path):
            return None
        found = self._path(path)
        return int(found.getFileSystem(self._configuration).getFileStatus(found).getLen())

    def matching(self, source: str) -> list[str]:
        """Return the path that has this very name; if there is none, those that match it as a pattern."""
        path = self._path(source)
        files = path.getFileSystem(self._configuration)
        if files.exists(path):
            return [source]
        return sorted(status.getPath().toString() for status in files.globStatus(path) or ())

    def directories(self, path: str) -> list[str]:
        """Return the names of the directories in `path`; none if it is not there."""
        if not self.exists(path):
            return []
        found = self._files.listStatus(self._path(path))
        return sorted(status.getPath().getName() for status in found if status.isDirectory())

    def files(self, path: str) -> list[str]:
        """Return the names of the files in `path`, without Spark's own; none if it is not there."""
        return sorted(self.sizes(path))

    def sizes(self, path: str) -> dict[str, int]:
        """Return the bytes of each of these files."""
        if not self.exists(path):
            return {}
        found = {
            str(status.getPath().getName()): int(status.getLen())
            for status in self._files.listStatus(self._path(path))
            if status.isFile()
        }
        return {name: size for name, size in found.items() if name[0] not in "._"}

    def files_below(self, path: str) -> list[str]:
        """Return the names of all files in `path`, however deep, as they are below it."""
        below = [f"{one}/{name}" for one in self.directories(path) for name in self.files_below(f"{path}/{one}")]
        return self.files(path) + below

    def is_directory(self, path: str) -> bool:
        found = self._path(path)
        return self.exists(path) and bool(self._files.getFileStatus(found).isDirectory())

    def names(self, path: str) -> list[str]:
        """Return all names in `path`, Spark's own as well; of a file its own, none if nothing is there."""
        if not self.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(self._path(path)))

    def has_beside(self, name: str) -> bool:
        """Whether something of this name is where `root` is, or would be."""
        above = self._path(self.root).getParent()
        return above is not None and self.exists(self._path(above, name).toString())

    def remove(self, path: str) -> None:
        self._files.delete(self._path(path), _RECURSIVE)

    def remove_if_empty(self, path: str) -> None:
        """Remove a directory that has nothing in it; leave it, and what somebody may be adding just now, if it has."""
        if not self.names(path):
            with suppress(Py4JJavaError):
                self._files.delete(self._path(path), not _RECURSIVE)

    def make_directory(self, path: str) -> None:
        """Raises InputError if it cannot be made."""
        if not self._files.mkdirs(self._path(path)):
            raise InputError(f"{self.root}: cannot be written: no permission, or no directory")

    def move(self, source: str, target: str) -> None:
        """`source` takes the place of `target`; nothing to do if it has already."""
        if not self.exists(source):
            return
        self.remove(target)
        self._files.mkdirs(self._path(target).getParent())
        if not self._files.rename(self._path(source), self._path(target)):
            raise OSError(f"cannot rename {source} to {target}")

    def create_text(self, path: str, text: str) -> bool:
        """Create a file that is not there yet, with its text; return whether it was us: of several one alone does."""
        uri = self._path(path).toUri()
        if self._files.getUri().getScheme() == "file":
            return _create_here(Path(uri.getPath()), text)
        try:
            builder = self._files.createFile(self._path(path)).overwrite(not _OVERWRITE)
            # On object stores only a conditional request is atomic; others do not know the option and need it not.
            stream = builder.opt("fs.option.create.conditional.overwrite", "true").build()
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        except Py4JJavaError:
            if self.exists(path):
                return False
            raise
        return True

    def replace_text(self, path: str, text: str) -> None:
        """Write a file that is there at every moment; a reader may find it empty meanwhile."""
        uri = self._path(path).toUri()
        if self._files.getUri().getScheme() == "file":
            write_here(Path(uri.getPath()), text)
        else:
            self._write(path, text)

    def write_text(self, path: str, text: str) -> None:
        """Whole or not at all."""
        self._write(path + ".tmp", text)
        self.remove(path)
        self._files.rename(self._path(path + ".tmp"), self._path(path))

    def _write(self, path: str, text: str) -> None:
        stream = self._files.create(self._path(path), _OVERWRITE)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def read_text(self, path: str) -> str:
        length = self._files.getFileStatus(self._path(path)).getLen()
        stream = self._files.open(self._path(path))
        try:
            return bytes(stream.readNBytes(length)).decode()
        finally:
            stream.close()


def _beside(path: Path) -> Path:
    """A name that no other process has, nor another thread of this one: two ingests may share a driver."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")


def write_here(path: Path, text: str) -> None:
    """Write a file of this machine: whole or not at all, and there at every moment."""
    beside = _beside(path)
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _create_here(path: Path, text: str) -> bool:
    """Hadoop's own local file system looks first and creates then. A link is made or is not."""
    beside = _beside(path)
    beside.write_text(text, "utf-8")
    try:
        path.hardlink_to(beside)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    return True
