"""Journal files to lines of a journal, and what each file was, so that nothing is lost to a reader's error.

All files are read at once; those of which nothing came then, because a file system failed, are read again one by one.
An error of a file system says nothing of the file: it is tried again, and if it fails each time, the file counts as not
read.

Invariant: each path that is given has all of its lines returned, or a verdict that says why not.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..errors import root_cause
from ..tables.storage import literal
from .decompress import FileEnd, Inflated, lines
from .parse_lines import PARSED, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

ATTEMPTS = 3
PAUSE_SECONDS = 1.0
"""The pause before the second attempt; before the third it is twice as long."""
STATES = {FileEnd.ALTERED.value: "corrupt", FileEnd.FOREIGN.value: "unreadable"}
"""States of files of which no line counts, by how they end."""
_VERDICT = [StructField(name, StringType()) for name in ("end", "why")]
_TEXT = StructType([StructField(name, StringType()) for name in ("source", "value")] + _VERDICT)
"""A line of a file, or, with `end`, the verdict on the file."""
_STAGED = StructType([*PARSED, *_VERDICT])


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

    def attempt(some: Sequence[str], *, passing_over: bool = False) -> str | None:
        """Read these files and append what they say, all of it or nothing; return why that failed."""
        reader = spark.read.format("binaryFile")
        for option in ("ignoreCorruptFiles", "ignoreMissingFiles"):
            reader = reader.option(option, passing_over)
        try:
            files = reader.load([literal(path) for path in some]).select("path", "content")
            text = spark.createDataFrame(files.rdd.flatMap(_say), _TEXT, verifySchema=False)
            parse(text, latest_seconds=latest_seconds).write.mode("append").parquet(stage)
        except (PySparkException, Py4JJavaError) as error:
            return root_cause(error)
        return None

    spark.createDataFrame([], _STAGED).write.parquet(stage)
    attempt(paths, passing_over=True)
    staged = spark.read.schema(_STAGED).parquet(literal(stage))
    told = staged.where("end is not null").select("source", "end", "why")
    said = {row.source for row in told.collect()}
    unread = {}
    for path in [path for path in paths if path not in said]:
        why = _attempts(partial(attempt, [path]), sleep)
        if why is not None:
            unread[path] = ("unread", why)
    ends = spark.read.schema(_STAGED).parquet(literal(stage))
    bad = {row.source: (STATES[row.end], row.why) for row in ends.where(F.col("end").isin([*STATES])).collect()}
    good = ends.where("end is null").select(PARSED.names)
    if bad:
        left_out = spark.createDataFrame([(path,) for path in bad], "source string")
        good = good.join(F.broadcast(left_out), on="source", how="left_anti").select(PARSED.names)
    return good, unread | bad


def _attempts(attempt: Callable[[], str | None], sleep: Callable[[float], None]) -> str | None:
    """Try it; return why that failed each time, None if it did not."""
    for number in range(ATTEMPTS):
        if number:
            sleep(PAUSE_SECONDS * number)
        why = attempt()
        if why is None:
            return None
    return why


def _say(file: Row) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    for one in lines(bytes(file.content)):
        if isinstance(one, Inflated):
            yield file.path, None, one.end.value, one.why
        else:
            yield file.path, one, None, None
