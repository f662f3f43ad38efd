"""The account of the files: what each was, which have to be read, and which are the same file once more.

DataFrame → DataFrame. A file is known by the name it has once it is closed, which says broker, start of the run and
number: copies in other directories are the same file, and so is what it was while it was being written. Invariant: what
was not read to its end is never called done, nor is what had a line set aside that may be understood by now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import Kind

from .reading import OPEN
from .schema import FILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

CLOSED = ".ndjson.gz"
BEST_FIRST = ("whole", "damaged", "torn", "open", "corrupt", "unreadable", "unread")
"""States of a file, best first. If two files are the same journal file, the one whose state comes first here counts:
more of its lines are known."""
READ_AGAIN = ("damaged", "corrupt", "unreadable", "unread")
"""States of files that are read again although nothing of them may have changed. A copy may be better."""


def account(listed: DataFrame, parsed: DataFrame, verdicts: Mapping[str, tuple[str, str]]) -> DataFrame:
    """Return the files table's rows of the files in `listed`: how much of each was read, and whether that was all.

    verdicts: path to (state, why) of those of which there is no line.
    """
    closing = F.when((F.col("kind") == Kind.FILE_CLOSED.value) & F.col("problem").isNull(), F.col("lines"))
    counted = parsed.groupBy(F.col("source").alias("path")).agg(
        F.count("*").alias("read"),
        F.count("problem").cast("int").alias("quarantined"),
        F.max(closing).alias("announced"),
    )
    rows = [(path, state, why) for path, (state, why) in verdicts.items()]
    said = listed.sparkSession.createDataFrame(rows, "path string, verdict string, why string")
    state = (
        F.when(F.col("verdict").isNotNull(), F.col("verdict"))
        .when(F.col("announced").isNull(), F.when(F.col("path").endswith(OPEN), "open").otherwise("torn"))
        .when(F.col("announced") + 1 == F.col("read"), "whole")
        .otherwise("damaged")
    )
    return (
        listed.join(counted, on="path", how="left")
        .join(F.broadcast(said), on="path", how="left")
        .na.fill(0, ["read", "quarantined"])
        .withColumns({"state": state, "lines": F.col("read")})
        .select([F.col(field.name).cast(field.dataType) for field in FILES])
    )


def best(known: DataFrame, read: DataFrame) -> DataFrame:
    """Return the files table after a run. Of several rows for the same journal file the one with the best state is
    kept, and of equally good ones the one that was read last."""
    rank = F.array_position(F.array(*map(F.lit, BEST_FIRST)), F.col("state"))
    runs = known.withColumn("turn", F.lit(0)).unionByName(read.where("state != 'gone'").withColumn("turn", F.lit(1)))
    same = Window.partitionBy(journal()).orderBy("rank", F.desc("turn"), F.desc("lines"), "path")
    numbered = runs.withColumn("rank", rank).withColumn("place", F.row_number().over(same))
    return numbered.where("place = 1").select(FILES.names)


def to_read(found: DataFrame, known: DataFrame, understood: DataFrame) -> tuple[list[str], int]:
    """Return the paths that are to be read, and how many files need not be read. understood: `source` of files of which
    lines were set aside that may be understood by now.

    Of copies of one size one is read. If it turns out to be bad, all others are, at the next run: one of them may be
    good, and the bad one says the same each time unless it is written anew.
    """
    # No copy of a file that was whole can have more lines than it. A torn file is read again if its size has changed.
    again = understood.select("source", F.lit(True).alias("again"))
    done = known.join(F.broadcast(again), on="source", how="left").where("quarantined = 0 or again is null")
    whole = done.where("state = 'whole'").select(journal().alias("journal")).distinct()
    torn = done.where("state = 'torn'").select("source", "size_bytes").distinct()
    this = ["path", "size_bytes", "modified"]
    bad = known.where(F.col("state").isin(list(READ_AGAIN))).select(*this, F.lit(True).alias("bad"))
    others = F.collect_set(F.when(F.col("bad").isNull(), F.col("path")))
    one = F.array(F.min("path"))
    new = (
        found.withColumn("journal", journal())
        .join(F.broadcast(whole), on="journal", how="left_anti")
        .join(F.broadcast(torn), on=["source", "size_bytes"], how="left_anti")
        .join(F.broadcast(bad), on=this, how="left")
        .groupBy("source", "size_bytes")
        .agg(F.when((F.count("bad") > 0) & (F.size(others) > 0), others).otherwise(one).alias("paths"))
        .select(F.explode("paths").alias("path"))
    )
    paths = sorted(row.path for row in new.select("path").collect())
    return paths, found.count() - len(paths)


def journal() -> Column:
    """The name that a file has once it is closed."""
    return F.when(
        F.col("source").endswith(OPEN), F.regexp_replace("source", OPEN.replace(".", r"\.") + "$", CLOSED)
    ).otherwise(F.col("source"))
