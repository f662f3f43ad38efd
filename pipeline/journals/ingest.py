"""Journals to tables: each line once, whatever was fed, how often, in which order.

Files that were read whole are not read again (`file_accounts`). A line that is no line of a journal is set aside with
the reason; nothing else is set aside. Invariant: the tables depend on the set of lines fed, not on how they were fed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from journal_schema import Kind

from ..errors import InputError
from ..tables import Tables, delta
from ..tables.file_accounts import ToRead, account, to_read
from ..tables.incomplete_data import of_clocks, of_files, of_lines, shortened
from ..tables.scope import began
from ..tables.storage import literal
from ..tables.write_lines import add_accounts, create, insert_lines, set_aside, stage
from .folders import Folders
from .one_cluster import strangers
from .parse_lines import AHEAD_SECONDS, LATEST_SECONDS, may_be_understood
from .read_files import read_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ..tables.storage import Storage

FILES_NAMED = ("journal-*.gz",)
CLOSED_FILES = ("journal-*[0-9].ndjson.gz", "journal-*[0-9].txt.gz")
"""The names of those files that are closed: the names of the others end in `.open.ndjson.gz`."""


class Outcome(NamedTuple):
    """The outcome of one run."""

    files: dict[str, int]
    """Files read, by state: whole, open, torn, damaged, corrupt, unreadable, unread, gone, copy, foreign."""
    lines: int
    quarantined: int
    skipped_files: int
    """Unchanged since they were read, or older than what is kept."""
    troubles: tuple[str, ...] = ()
    """The problems of what was read, to be printed."""
    unsettled: Mapping[str, str] = {}
    """The states of the files that are not whole, by path: another look may find more of them."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing of what was fed."""
        return not self.quarantined and self.files.keys() <= {"whole", "open", "copy"}


def matching(storage: Storage, sources: Sequence[str]) -> list[str]:
    """Return the paths of files and folders that these name, each a path, or a pattern if no file has that very name.
    Raises InputError if one of them names none."""
    found = [(source, storage.matching(source)) for source in sources]
    for source, paths in found:
        if not paths:
            raise InputError(f"{source}: no such file or directory")
    return [path for _, paths in found for path in paths]


def find_files(
    spark: SparkSession, storage: Storage, paths: Sequence[str], *, named: Collection[str] = FILES_NAMED
) -> DataFrame:
    """Return `source`, `path`, `size_bytes` and `modified` of every journal file at or below these paths. Raises
    InputError if one of them may not be listed."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    reader = reader.option("pathGlobFilter", f"{{{','.join(named)}}}")
    # Each file is looked at again when it is accounted for: one that is still open may have been closed by then, which
    # is another name, and `journal.keep` removes the oldest.
    reader = reader.option("ignoreMissingFiles", "true")
    name = F.regexp_extract("path", r"([^/]+)$", 1).alias("source")
    size, modified = F.col("length").alias("size_bytes"), F.col("modificationTime").alias("modified")
    try:
        found = reader.load([literal(path) for path in paths]).select(name, "path", size, modified)
        listed = Folders(storage, named).fresh(paths)
        if found.count() == len(listed):
            return found
        return found.unionByName(_empty(found, listed, storage))
    except AnalysisException as error:
        raise InputError(f"{', '.join(paths)}: {str(error).splitlines()[0]}") from error


def _empty(found: DataFrame, listed: Sequence[str], storage: Storage) -> DataFrame:
    """Return files of 0 bytes, as a power cut leaves them: Spark reads nothing of them, not even that they are
    there."""
    known = {row.path for row in found.select("path").collect()}
    rows = [
        (path.rpartition("/")[2], path, 0, None) for path in listed if path not in known and _is_empty(storage, path)
    ]
    return found.sparkSession.createDataFrame(rows, found.schema)


def _is_empty(storage: Storage, path: str) -> bool:
    stat = storage.stat(path)
    return stat is not None and stat[0] == 0


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
    found = find_files(spark, tables.storage, matching(tables.storage, sources))
    outcome = ingest_files(found, tables, tell=tell, now=now)
    if not outcome.files and not outcome.skipped_files:
        raise InputError(f"{', '.join(sources)}: no files called {' or '.join(FILES_NAMED)} here")
    return outcome


def ingest_files(
    found: DataFrame,
    tables: Tables,
    *,
    tell: Callable[[str], None] = lambda _: None,
    now: float | None = None,
    past_strangers: bool = False,
) -> Outcome:
    """Read these files (as `find_files` returns them) into tables: what `ingest` does once, and `stream` again and
    again.

    past_strangers: leave out files of another cluster. Without it raises InputError for one; then nothing has changed.
    """
    seconds = int(time.time() if now is None else now)
    tables = tables.require_layout().now()
    since, older = tables.kept_since(), 0
    if since is not None:
        is_older = F.coalesce(F.col("modified") < began(since), F.lit(False))
        older = found.where(is_older).count()
        found = found.where(~is_older)
        if older:
            tell(f"{older} files are from before {since}, from when on these tables are kept: passed over")
    files = to_read(found, tables.table("files"), _understood(tables, seconds))
    outcome, foreign = Outcome({}, 0, 0, 0), dict[str, str]()
    if files.paths:
        tell(f"reading {len(files.paths)} files ({files.skipped} unchanged)")
        create(tables)
        with stage(tables, now=time.time()) as place:
            outcome, foreign = _take(found, files, tables, place, tell=tell, now=seconds, past=past_strangers)
    elif files.skipped:
        tell(f"nothing new: all {files.skipped} files were read before")
    left_out = {"foreign": len(foreign)} if foreign else {}
    return outcome._replace(
        files=outcome.files | left_out,
        skipped_files=files.skipped + older,
        troubles=(*outcome.troubles, *shortened([f"{why}; it was left out" for why in foreign.values()])),
        unsettled={**files.unsettled, **outcome.unsettled, **dict.fromkeys(foreign, "foreign")},
    )


def _strangers(files: DataFrame, tables: Tables, *, past: bool) -> dict[str, str]:
    foreign = strangers(files, tables.table("files"))
    if foreign and not past:
        raise InputError(f"{foreign[min(foreign)]}; nothing was taken")
    return foreign


def _understood(tables: Tables, now: int) -> list[str]:
    """Return the journal files of which lines were set aside that may be understood by now."""
    path = tables.path("quarantine")
    # Opening a table takes seconds, and hardly any journal ever has such a line.
    if set(tables.storage.names(path)) <= {delta.LOG}:
        return []
    may_be = tables.quarantine.where(may_be_understood(_latest_seconds(now)))
    return [row.source for row in may_be.select("source").distinct().collect()]


def _take(
    found: DataFrame, wanted: ToRead, tables: Tables, place: str, *, tell: Callable[[str], None], now: int, past: bool
) -> tuple[Outcome, dict[str, str]]:
    spark = tables.spark
    parsed, verdicts = read_files(spark, wanted.paths, place, latest_seconds=_latest_seconds(now))
    for path, (state, why) in verdicts.items():
        if state == "unread" and not tables.storage.exists(path):
            verdicts[path] = ("gone", why)
    paths = spark.createDataFrame([(path,) for path in wanted.paths], "path string")
    listed = found.join(F.broadcast(paths), on="path", how="left_semi")
    accounts = account(listed, parsed, verdicts, taken=now).coalesce(1)
    if wanted.copies:
        is_copy = F.col("path").isin(wanted.copies)
        none = {name: F.when(is_copy, 0).otherwise(F.col(name)) for name in ("lines", "quarantined")}
        accounts = accounts.withColumns({"state": F.when(is_copy, "copy").otherwise(F.col("state")), **none})
        parsed = parsed.where(~F.col("source").isin(wanted.copies))
    files = accounts.cache()
    foreign = _strangers(files, tables, past=past)
    if foreign:
        files, parsed = files.where(~F.col("path").isin([*foreign])), parsed.where(~F.col("source").isin([*foreign]))
    good, bad = parsed.where(F.col("problem").isNull()), parsed.where(F.col("problem").isNotNull())
    outcome = _outcome(files)
    told = [*of_clocks(good), *of_files(files)]
    if outcome.quarantined:
        told += of_lines(bad)
    since = tables.kept_since()
    if since is not None:
        good = good.where((F.col("kind") != Kind.TRAFFIC.value) | (F.timestamp_seconds("time") >= began(since)))
    tell("writing lines")
    insert_lines(tables, good)
    set_aside(tables, bad, files.where("state != 'copy'"))
    # Last of all: killed before this, the next run reads the same files again, and finds the lines that are there.
    add_accounts(tables, files.where("state != 'gone'"))
    files.unpersist()
    return outcome._replace(troubles=tuple(told)), foreign


def _latest_seconds(now: int) -> int:
    """Return the latest second that a line may have: a later one is of a clock that is wrong."""
    return min(now + AHEAD_SECONDS, LATEST_SECONDS)


def _outcome(files: DataFrame) -> Outcome:
    by_state = files.groupBy("state").agg(
        F.count("*").alias("files"), F.sum("lines").alias("lines"), F.sum("quarantined").alias("quarantined"),
        F.collect_list(F.when(~F.col("state").isin("whole", "copy"), F.col("path"))).alias("paths"),
    )  # fmt: skip
    rows = by_state.collect()
    return Outcome(
        files={row.state: row.files for row in rows},
        lines=sum(row.lines for row in rows),
        quarantined=sum(row.quarantined for row in rows),
        skipped_files=0,
        unsettled={path: row.state for row in rows for path in row.paths},
    )
