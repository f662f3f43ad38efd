"""The live journals as their files are closed: into the tables of `ingest`, by its own code, and what they say now.

A sidecar closes a file every `journal.rotate_every`: set it to 15 seconds to watch live. A look asks folders for files
that came since the last one (`folders`), and files that were not whole whether they have changed: one that was still
being copied, say. A file that could not be read is tried again with every look. What the tables account for is looked
at once, at the start.

Invariant: the tables are those that one `ingest` of all these files makes, in whatever order and however late the files
come, even if the process is killed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ..tables import Tables
from .folders import Folders
from .ingest import CLOSED_FILES, Outcome, find_files, ingest_files, matching

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

TRIED_AGAIN = "unread"
"""The state of a file that says nothing of it."""


class Live:
    """Tables that follow live journals."""

    def __init__(
        self, spark: SparkSession, source: str, target: str, *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._spark, self._source, self._tell = spark, source, tell
        self.tables = Tables(spark, target)
        self._folders = Folders(self.tables.storage, CLOSED_FILES)
        self._begun = False
        self._fresh: dict[str, None] = {}
        """Files that came, and were not taken yet."""
        self._unsettled: dict[str, tuple[int, int] | None] = {}
        """Files that are not whole: their bytes, and when they were modified; None: to be tried again."""

    def look(self) -> Outcome:
        """Take the files that are new or have changed. Raises InputError."""
        storage, roots = self.tables.storage, matching(self.tables.storage, [self._source])
        self._fresh |= dict.fromkeys(self._folders.fresh(roots))
        stats = {path: storage.stat(path) for path in self._unsettled}
        changed = [path for path, stat in stats.items() if stat is not None and stat != self._unsettled[path]]
        if not self._fresh and not changed:
            return Outcome({}, 0, 0, 0)
        # At the start they may be many thousands, which Spark lists sooner by their folders.
        wanted = [*self._fresh, *changed] if self._begun else roots
        listed = find_files(self._spark, storage, wanted, named=CLOSED_FILES)
        found = listed.withColumn("millis", F.unix_millis("modified")).collect()
        frame = self._spark.createDataFrame([row[:-1] for row in found], listed.schema)
        outcome = ingest_files(frame, self.tables, tell=self._tell, past_strangers=True)
        self.tables = self.tables.now()
        was = {row.path: (row.size_bytes, row.millis) for row in found}
        kept = {path: stat for path, stat in self._unsettled.items() if path not in was and stats[path] is not None}
        self._unsettled = kept | {
            path: None if state == TRIED_AGAIN else was[path] for path, state in outcome.unsettled.items()
        }
        self._fresh, self._begun = {}, True
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
