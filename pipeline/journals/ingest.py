"""Journals to tables: each line once, whatever was fed, how often, in which order.

Files that were read whole are not read again (`file_accounts`). A line that is no line of a journal is set aside with
the reason; nothing else is set aside. Invariant: the tables depend on the set of lines fed, not on how they were fed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ..errors import InputError
from ..tables import Tables, delta
from ..tables.file_accounts import account, journal, to_read
from ..tables.incomplete_data import of_clocks, of_files, of_lines
from ..tables.storage import literal
from ..tables.write_lines import add_accounts, create, insert_lines, set_aside, stage
from .one_cluster import account_of_copies, require_one_cluster
from .parse_lines import AHEAD_SECONDS, LATEST_SECONDS, may_be_understood
from .read_files import read_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ..tables.storage import Storage

FILES_NAMED = "journal-*.gz"
CLOSED_FILES = "journal-*[0-9].{ndjson,txt}.gz"
"""The names of those files that are closed: the names of the others end in `.open.ndjson.gz`."""


class Outcome(NamedTuple):
    """The outcome of one run."""

    files: dict[str, int]
    """Files read, by state: whole, open, torn, damaged, corrupt, unreadable, unread, gone."""
    lines: int
    quarantined: int
    skipped_files: int
    """Unchanged since they were read, or copies of others."""
    troubles: tuple[str, ...] = ()
    """The problems of what was read, to be printed."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing of what was fed."""
        return not self.quarantined and self.files.keys() <= {"whole", "open"}


def find_files(spark: SparkSession, storage: Storage, sources: Sequence[str], *, named: str = FILES_NAMED) -> DataFrame:
    """Return `source`, `path`, `size_bytes` and `modified` of every journal file below `sources`, each of which is a
    path, or a pattern if no file has that very name.

    Raises InputError if a source is not there or may not be listed.
    """
    patterns = [pattern for source in sources for pattern in _patterns(storage, source)]
    reader = spark.read.format("binaryFile").option("pathGlobFilter", named).option("recursiveFileLookup", "true")
    # Each file is looked at again when it is accounted for: one that is still open may have been closed by then, which
    # is another name, and `journal.keep` removes the oldest.
    reader = reader.option("ignoreMissingFiles", "true")
    name = F.regexp_extract("path", r"([^/]+)$", 1).alias("source")
    size, modified = F.col("length").alias("size_bytes"), F.col("modificationTime").alias("modified")
    try:
        files = reader.load(patterns)
        return files.select(name, "path", size, modified).unionByName(_empty(files, storage))
    except AnalysisException as error:
        raise InputError(f"{', '.join(sources)}: {str(error).splitlines()[0]}") from error


def _patterns(storage: Storage, source: str) -> list[str]:
    found = storage.matching(source)
    if not found:
        raise InputError(f"{source}: no such file or directory")
    return [literal(path) for path in found]


def _empty(files: DataFrame, storage: Storage) -> DataFrame:
    """Return files of 0 bytes, as a power cut leaves them: Spark lists them, and then reads nothing of them, not even
    that they are there."""
    spark = files.sparkSession
    frame: Any = files._jdf
    named = frame.inputFiles()
    missing = []
    # Java's array, of which each element is a call: they are looked at only if there is something to find.
    if len(named) != files.count():
        known = {row.path for row in files.select("path").collect()}
        missing = sorted({unquote(path).replace(":///", ":/", 1) for path in named} - known)
    rows = [(path.rpartition("/")[2], path) for path in missing if storage.size(path) == 0]
    found = spark.createDataFrame(rows, "source string, path string")
    return found.select(
        "source", "path", F.lit(0).cast("long").alias("size_bytes"), F.lit(None).cast("timestamp").alias("modified")
    )


def ingest(
    spark: SparkSession,
    sources: Sequence[str],
    target: str,
    *,
    tell: Callable[[str], None] = lambda _: None,
    now: float | None = None,
) -> Outcome:
    """Read journals below `sources` into tables below `target`. Others may read and write them at the same time.

    now: seconds since 1970, by which lines of the future are known. Raises InputError; then nothing has changed.
    """
    tables = Tables(spark, target)
    found = find_files(spark, tables.storage, sources)
    outcome = ingest_files(found, tables, tell=tell, now=now)
    if not outcome.files and not outcome.skipped_files:
        raise InputError(f"{', '.join(sources)}: no files called {FILES_NAMED} here")
    return outcome


def ingest_files(
    found: DataFrame,
    tables: Tables,
    *,
    tell: Callable[[str], None] = lambda _: None,
    now: float | None = None,
) -> Outcome:
    """Read these files (as `find_files` returns them) into tables: what `ingest` does once, and `stream` again and
    again."""
    seconds = int(time.time() if now is None else now)
    tables = tables.require_layout().now()
    files = to_read(found, tables.table("files"), _understood(tables, seconds))
    copies = account_of_copies(tables.spark, files.copies, taken=seconds)
    if copies is not None:
        require_one_cluster(copies, tables.table("files"))
        add_accounts(tables, copies, tables.versions())
    if not files.paths:
        if files.skipped:
            tell(f"nothing new: all {files.skipped} files were read before")
        return Outcome({}, 0, 0, files.skipped)
    tell(f"reading {len(files.paths)} files ({files.skipped} unchanged)")
    create(tables)
    with stage(tables, now=time.time()) as place:
        outcome = _take(found, files.paths, tables, place, tell=tell, now=seconds)
    return outcome._replace(skipped_files=files.skipped)


def _understood(tables: Tables, now: int) -> list[str]:
    """Return the journal files of which lines were set aside that may be understood by now."""
    path = tables.path("quarantine")
    # Opening a table takes seconds, and hardly any journal ever has such a line.
    if set(tables.storage.names(path)) <= {delta.LOG}:
        return []
    may_be = tables.quarantine.where(may_be_understood(_latest_seconds(now)))
    return [row.source for row in may_be.select("source").distinct().collect()]


def _take(
    found: DataFrame, paths: list[str], tables: Tables, place: str, *, tell: Callable[[str], None], now: int
) -> Outcome:
    spark = tables.spark
    parsed, verdicts = read_files(spark, paths, place, latest_seconds=_latest_seconds(now))
    for path, (state, why) in verdicts.items():
        if state == "unread" and not tables.storage.exists(path):
            verdicts[path] = ("gone", why)
    wanted = spark.createDataFrame([(path,) for path in paths], "path string")
    listed = found.join(F.broadcast(wanted), on="path", how="left_semi")
    files = account(listed, parsed, verdicts, taken=now).coalesce(1).cache()
    require_one_cluster(files, tables.table("files"))
    good, bad = parsed.where(F.col("problem").isNull()), parsed.where(F.col("problem").isNotNull())
    outcome = _outcome(files)
    told = [*of_clocks(good), *of_files(files)]
    if outcome.quarantined:
        told += of_lines(bad)
    tell("writing lines")
    insert_lines(tables, good)
    set_aside(tables, bad, [row.source for row in files.select(journal().alias("source")).distinct().collect()])
    # Last of all: killed before this, the next run reads the same files again, and finds the lines that are there.
    add_accounts(tables, files.where("state != 'gone'"))
    files.unpersist()
    return outcome._replace(troubles=tuple(told))


def _latest_seconds(now: int) -> int:
    """Return the latest second that a line may have: a later one is of a clock that is wrong."""
    return min(now + AHEAD_SECONDS, LATEST_SECONDS)


def _outcome(files: DataFrame) -> Outcome:
    by_state = files.groupBy("state").agg(
        F.count("*").alias("files"), F.sum("lines").alias("lines"), F.sum("quarantined").alias("quarantined")
    )
    rows = by_state.collect()
    return Outcome(
        files={row.state: row.files for row in rows},
        lines=sum(row.lines for row in rows),
        quarantined=sum(row.quarantined for row in rows),
        skipped_files=0,
    )
