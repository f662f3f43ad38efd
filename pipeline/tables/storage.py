"""Files and directories on any Hadoop file system: found, read, written, removed.

Knows no table. Invariant: what is written here is a result that somebody asked for, never a part of a table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECURSIVE = _OVERWRITE = True
_MEANS_SOMETHING = re.compile(r"([{}\[\]*?\\])")
"""Characters of Hadoop's globs (org.apache.hadoop.fs.GlobPattern)."""


def literal(path: str) -> str:
    """Return the pattern that matches this path and no other: Spark's readers take every path for a pattern."""
    return _MEANS_SOMETHING.sub(r"\\\1", path)


class Storage:
    """File operations below `root`, the absolute path with its scheme of `named`, which is as the operator wrote it."""

    def __init__(self, spark: SparkSession, named: str) -> None:
        # Spark's own way to the file system that a path names; PySpark has no public one.
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        context: Any = spark._jsc
        self._configuration = context.hadoopConfiguration()
        self.named = named
        self._files = self._path(named).getFileSystem(self._configuration)
        # Delta Lake takes a relative path for a table's name, and file:///lake and file:/lake for two places.
        self.root = str(self._files.makeQualified(self._path(named)).toString())

    def under(self, *names: str) -> str:
        """Return the path of something below `root`."""
        return "/".join((self.root, *names))

    def exists(self, path: str) -> bool:
        """Return whether there is something at this path, on whichever file system it names."""
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

    def is_directory(self, path: str) -> bool:
        """Return whether there is a directory at this path."""
        found = self._path(path)
        return self.exists(path) and bool(self._files.getFileStatus(found).isDirectory())

    def names(self, path: str) -> list[str]:
        """Return all names in `path`; of a file its own, none if nothing is there."""
        if not self.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(self._path(path)))

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        self._files.delete(self._path(path), _RECURSIVE)

    def write_text(self, path: str, text: str) -> None:
        """Write a file, in place of one that is there."""
        stream = self._files.create(self._path(path), _OVERWRITE)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
