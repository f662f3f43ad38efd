"""Files and directories on any Hadoop file system: found, read, written, removed.

Knows no table. Invariant: what is written here is a result that somebody asked for, never a part of a table.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECURSIVE = _OVERWRITE = True
_MEANS_SOMETHING = re.compile(r"([{}\[\]*?\\])")
"""Characters of Hadoop's globs (org.apache.hadoop.fs.GlobPattern)."""


def local(path: str) -> Path | None:
    """Return where this absolute path of `Storage` is on this machine; None: on another file system."""
    scheme, _, rest = path.partition(":")
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def literal(path: str) -> str:
    """Return the pattern that matches this path and no other: Spark's readers take every path for a pattern."""
    return _MEANS_SOMETHING.sub(r"\\\1", path)


class Storage:
    """File operations below `root`, the absolute path with its scheme of `named`, which is as the operator wrote it."""

    def __init__(self, spark: SparkSession, named: str) -> None:
        # Spark's own way to the file system that a path names; PySpark has no public one.
        jvm: Any = spark._jvm
        self._jvm = jvm
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

    def stat(self, path: str) -> tuple[int, int] | None:
        """Return the bytes of the file at this path, on whichever file system it names, and when it was last modified
        in milliseconds since 1970; None if there is none."""
        if not self.exists(path):
            return None
        found = self._path(path)
        status = found.getFileSystem(self._configuration).getFileStatus(found)
        return int(status.getLen()), int(status.getModificationTime())

    def folder_modified(self, path: str) -> int | None:
        """Return when the last entry came into this folder or went, in whichever unit; None if its file system may not
        say so, or it is not there."""
        if (place := local(path)) is not None:
            with suppress(FileNotFoundError):
                return place.stat().st_mtime_ns
        if not path.startswith("hdfs:"):
            return None
        stat = self.stat(path)
        return stat and stat[1]

    def entries(self, path: str) -> tuple[list[str], list[str]]:
        """Return the paths of the files in this folder, and of the folders; of a file its own; nothing if nothing is
        there. Raises InputError if it may not be read."""
        files: list[str] = []
        folders: list[str] = []
        if not self.exists(path):
            return files, folders
        if (place := local(path)) is not None:
            try:
                with os.scandir(place) as found:
                    for entry in found:
                        (folders if entry.is_dir() else files).append(f"{path.rstrip('/')}/{entry.name}")
            except NotADirectoryError:
                files.append(path)
            except OSError as error:
                raise InputError(f"{place}: cannot be listed: {error.strerror}") from error
            return files, folders
        folder = self._path(path)
        system = folder.getFileSystem(self._configuration)
        if not system.getFileStatus(folder).isDirectory():
            return [path], folders
        # As text in one call: each element of Java's array is a call of its own. S3A's `listStatus` has an array of a
        # class of its own, which Py4J takes for no array of `FileStatus`; patterns are answered by one of that.
        found_there = system.globStatus(self._path(f"{literal(path)}/*"))
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(found_there)
        text = str(self._jvm.org.apache.commons.lang3.ArrayUtils.toString(paths))[1:-1]
        scheme = path.partition(":")[0]
        for one in re.split(rf",(?={re.escape(scheme)}:)", text) if text else ():
            is_file = one.endswith(".gz") or not system.getFileStatus(self._path(one)).isDirectory()
            (files if is_file else folders).append(one)
        return files, folders

    def matching(self, source: str) -> list[str]:
        """Return the absolute path that has this very name; if there is none, those that match it as a pattern."""
        path = self._path(source)
        files = path.getFileSystem(self._configuration)
        if files.exists(path):
            return [str(files.makeQualified(path).toString())]
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
        """Remove a file, or a directory with all that is in it, on whichever file system it is. Raises InputError if it
        is still there after that: of a local file that may not be removed Hadoop says no more than false."""
        found = self._path(path)
        if not found.getFileSystem(self._configuration).delete(found, _RECURSIVE) and self.exists(path):
            raise InputError(f"{path.removeprefix('file:')}: cannot be removed: expected its folder to allow it")

    def write_text(self, path: str, text: str) -> None:
        """Write a file, in place of one that is there."""
        stream = self._files.create(self._path(path), _OVERWRITE)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
