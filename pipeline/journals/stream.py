"""The live journals as their files are closed: into the tables of `ingest`, by its own code, and what they say now.

A sidecar closes a file every `journal.rotate_every`: set it to 15 seconds to watch live. A look lists the files
and ingests those that are new, or have changed since the last look: one that was still being copied, say. A file that
could not be read is tried again with every look.

Invariant: the tables are those that one `ingest` of all these files makes, in whatever order and however late the files
come, even if the process is killed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..tables import Tables
from .ingest import CLOSED_FILES, Outcome, find_files, ingest_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

_FOUND = "source string, path string, size_bytes long, modified timestamp"


class Live:
    """Tables that follow live journals."""

    def __init__(
        self, spark: SparkSession, source: str, target: str, *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._spark, self._source, self._tell = spark, source, tell
        self.tables = Tables(spark, target)
        self._seen: set[Row] = set()
        """Files that need no second look as long as they stay as they are."""

    def look(self) -> Outcome:
        """Take the files that are new or have changed. Raises InputError."""
        found = find_files(self._spark, self.tables.storage, [self._source], named=CLOSED_FILES)
        listed = set(found.collect())
        fresh = sorted(listed - self._seen, key=lambda row: row.path)
        if not fresh:
            return Outcome({}, 0, 0, 0)
        outcome = ingest_files(self._spark.createDataFrame(fresh, _FOUND), self.tables, tell=self._tell)
        self.tables = self.tables.now()
        if "unread" not in outcome.files:
            self._seen = listed
        return outcome


def write_textfile(path: Path, text: str) -> None:
    """Write it whole or not at all, as the collector wants it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
