"""Journal files to lines of text, and what each file was, so that nothing is lost to a reader's error.

Spark reads the closed files together, and takes any error for the end of a file. So its lines count only for files
whose last line says that it is the last. All others, and those still being written, are read one by one (`decompress`),
where errors can be told apart: a file that ends too soon, a file that is altered, and a file system that failed. The
last says nothing of the file: it is read again, and if it fails each time, the file counts as not read.

Invariant: each path that is given has all of its lines returned, or a verdict that says why not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from journal_schema import Kind

from ..errors import root_cause
from ..tables.file_accounts import OPEN
from ..tables.storage import literal
from .decompress import FileEnd, how_it_ends, lines
from .parse_lines import PARSED, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

ATTEMPTS = 3
PAUSE_SECONDS = 1.0
"""The pause before the second attempt; before the third it is twice as long."""

_TEXT = StructType([StructField(name, StringType()) for name in ("source", "value", "end", "why")])
"""A line of a file, or, with `end`, the verdict on the file."""


def read_files(
    spark: SparkSession,
    paths: Sequence[str],
    stage: str,
    *,
    latest_seconds: int,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[DataFrame, dict[str, tuple[str, str]]]:
    """Return every line of these files, with `source`, the path of its file; and by path the state and the reason of
    those that are `corrupt`, `unreadable` or `unread`, of which there are no lines. What is read is kept below `stage`.
    """
    together = [path for path in paths if not path.endswith(OPEN)]
    parsed = spark.createDataFrame([], PARSED)
    if together:
        parse(_read_together(spark, together), latest_seconds=latest_seconds).write.parquet(f"{stage}/together")
        parsed = spark.read.schema(PARSED).parquet(literal(f"{stage}/together"))
    alone = [*_not_closed(spark, parsed, together), *(path for path in paths if path.endswith(OPEN))]
    if not alone:
        return parsed, {}
    verdicts = _read_alone(spark, alone, f"{stage}/alone", sleep)
    text = spark.read.schema(_TEXT).parquet(literal(f"{stage}/alone")).where("end is null")
    parse(text.select("value", "source"), latest_seconds=latest_seconds).write.parquet(f"{stage}/mended")
    mended = spark.read.schema(PARSED).parquet(literal(f"{stage}/mended"))
    left_out = spark.createDataFrame([(path,) for path in alone], "source string")
    kept = parsed.join(F.broadcast(left_out), on="source", how="left_anti").select(PARSED.names)
    return kept.unionByName(mended), verdicts


def _read_together(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.option("ignoreCorruptFiles", "true").option("ignoreMissingFiles", "true")
    # A file's path is told as a URI, in which a plus is itself and not a space.
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    return reader.text([literal(path) for path in paths]).select("value", path.alias("source"))


def _not_closed(spark: SparkSession, parsed: DataFrame, paths: Sequence[str]) -> list[str]:
    """Return the paths of files whose last line was not among those that were read."""
    if not paths:
        return []
    closed = parsed.where((F.col("kind") == Kind.FILE_CLOSED.value) & F.col("problem").isNull())
    given = spark.createDataFrame([(path,) for path in paths], "source string")
    missing = given.join(closed.select("source").distinct(), on="source", how="left_anti")
    return sorted(row.source for row in missing.collect())


def _read_alone(
    spark: SparkSession, paths: Sequence[str], target: str, sleep: Callable[[float], None]
) -> dict[str, tuple[str, str]]:
    """Write lines and verdicts of these files below `target`; return the verdicts that leave no lines."""
    failed = _attempt(spark, paths, target)
    verdicts = {}
    if failed is not None:
        # One of these files cannot be read. Each is read alone to find out which.
        for path in paths:
            why = _attempts(spark, path, target, sleep)
            if why is not None:
                verdicts[path] = ("unread", why)
        if len(verdicts) == len(paths):
            spark.createDataFrame([], _TEXT).write.mode("append").parquet(target)
    states = {FileEnd.ALTERED.value: "corrupt", FileEnd.FOREIGN.value: "unreadable"}
    ends = spark.read.schema(_TEXT).parquet(literal(target)).where(F.col("end").isin(list(states)))
    return verdicts | {row.source: (states[row.end], row.why) for row in ends.collect()}


def _attempts(spark: SparkSession, path: str, target: str, sleep: Callable[[float], None]) -> str | None:
    """Read one file; return why that failed each time, None if it did not."""
    for attempt in range(ATTEMPTS):
        if attempt:
            sleep(PAUSE_SECONDS * attempt)
        why = _attempt(spark, [path], target)
        if why is None:
            return None
    return why


def _attempt(spark: SparkSession, paths: Sequence[str], target: str) -> str | None:
    """Read these files and append what they say below `target`, all of it or nothing; return why that failed."""
    try:
        files = spark.read.format("binaryFile").load([literal(path) for path in paths]).select("path", "content")
        spark.createDataFrame(files.rdd.flatMap(_say), _TEXT, verifySchema=False).write.mode("append").parquet(target)
    except (PySparkException, Py4JJavaError) as error:
        return root_cause(error)
    return None


def _say(file: Row) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    content = bytes(file.content)
    found = how_it_ends(content)
    yield file.path, None, found.end.value, found.why
    if found.end in (FileEnd.WHOLE, FileEnd.CUT):
        for line in lines(content):
            yield file.path, line, None, None
