"""The account of the files: what each was, which have to be read, and which are the same file once more.

DataFrame → DataFrame. A file is known by the name it has once it is closed, which says broker, start of the run and
number: copies in other directories are the same file, and so is what it was while it was being written. Invariant: what
was not read to its end is never called done, nor is what had a line set aside that may be understood by now.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from journal_schema import Kind

from .schema import FILES, VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame, Row

OPEN = ".open.ndjson.gz"
"""How the names of files end that are still being written."""
CLOSED = ".ndjson.gz"
BEST_FIRST = ("whole", "damaged", "torn", "open", "corrupt", "unreadable", "unread", "copy")
"""States of a file, best first. If two files are the same journal file, the one whose state comes first here counts:
more of its lines are known. Of a `copy` no line was taken: the file that it is one of was whole."""
READ_AGAIN = ("damaged", "corrupt", "unreadable", "unread")
"""States of files that are read again although nothing of them may have changed. A copy may be better."""


def account(listed: DataFrame, parsed: DataFrame, verdicts: Mapping[str, tuple[str, str]], *, taken: int) -> DataFrame:
    """Return the files table's rows of the files in `listed`: how much of each was read, and whether that was all.

    verdicts: path to (state, why) of those of which there is no line. taken: seconds since 1970.
    """
    closing = F.when((F.col("kind") == Kind.FILE_CLOSED.value) & F.col("problem").isNull(), F.col("lines"))
    counted = parsed.groupBy(F.col("source").alias("path")).agg(
        F.count("*").alias("read"),
        F.count("problem").cast("int").alias("quarantined"),
        F.max(closing).alias("announced"),
        F.min("run").alias("run"),
        F.max("cluster").alias("cluster"),
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
        .withColumns({"state": state, "lines": F.col("read"), "taken": F.lit(taken)})
        .withColumns(dict.fromkeys(VERSIONS.values(), F.lit(None)))  # known when it is written
        .select([F.col(field.name).cast(field.dataType) for field in FILES])
    )


def best(accounts: DataFrame) -> DataFrame:
    """Return one row per journal file: of several accounts of it the one with the best state, and of equally good ones
    the one that was taken last."""
    found = accounts.groupBy(journal().alias("journal")).agg(
        F.min_by(F.struct(*FILES.names), F.struct(*_rank(""))).alias("best")
    )
    return found.select("best.*")


def _rank(prefix: str) -> list[Column]:
    state, *rest = (F.col(f"{prefix}{name}") for name in ("state", "taken", "lines", "path"))
    return [F.array_position(F.array(*map(F.lit, BEST_FIRST)), state), -rest[0], -rest[1], rest[2]]


class ToRead(NamedTuple):
    """paths: of files to read. copies: those of them that have the name of a file that was whole, and that nobody has
    looked at yet. skipped: how many need not be read. unsettled: the states of those of these that are not whole, by
    path."""

    paths: list[str]
    copies: list[str]
    skipped: int
    unsettled: dict[str, str]


def to_read(found: DataFrame, accounts: DataFrame, understood: Iterable[str]) -> ToRead:
    """Return which files are to be read. understood: `source` of files of which lines were set aside that may be
    understood by now.

    Of copies of one size one is read. If it turns out to be bad, all others are, at the next run: one of them may be
    good, and the bad one says the same each time unless it is written anew. Copies of what is whole are read once: they
    may be of another cluster.
    """
    files = F.struct("path", "source", "size_bytes", "modified")
    known = accounts.select(journal().alias("journal"), F.struct(*FILES.names).alias("known"))
    listed = found.select(journal().alias("journal"), files.alias("file"))
    # One shuffle and one answer: planning joins takes longer than all there is to do where little is new.
    groups = (
        known.unionByName(listed, allowMissingColumns=True)
        .groupBy("journal")
        .agg(
            F.min_by("known", F.when(F.col("known").isNotNull(), F.struct(*_rank("known.")))).alias("best"),
            F.collect_list("file").alias("files"),
            F.collect_set(F.struct("known.path", "known.size_bytes")).alias("seen"),
        )
    )
    again = (F.col("best.quarantined") > 0) & F.col("best.source").isin(list(understood))
    is_whole = F.coalesce((F.col("best.state") == "whole") & ~again, F.lit(False))
    is_torn = F.coalesce((F.col("best.state") == "torn") & ~again, F.lit(False))

    def is_known(file: Column) -> Column:
        return is_torn & (file["source"] == F.col("best.source")) & (file["size_bytes"] == F.col("best.size_bytes"))

    def is_bad(file: Column) -> Column:
        """Return whether this very file was bad, and has not changed."""
        same = [file[name].eqNullSafe(F.col(f"best.{name}")) for name in ("path", "size_bytes", "modified")]
        return F.coalesce(F.col("best.state").isin(list(READ_AGAIN)), F.lit(False)) & same[0] & same[1] & same[2]

    def is_unseen(file: Column) -> Column:
        return ~F.array_contains("seen", F.struct(file["path"].alias("path"), file["size_bytes"].alias("size_bytes")))

    new = F.filter("files", lambda file: ~is_whole & ~is_known(file))
    copies = F.filter("files", lambda file: is_whole & is_unseen(file))
    row = groups.agg(
        F.coalesce(F.sum(F.size("files")), F.lit(0)).alias("files"),
        _all(F.transform(new, lambda file: F.struct(file.alias("file"), is_bad(file).alias("bad")))).alias("new"),
        _all(F.transform(copies, lambda file: file["path"])).alias("copies"),
        _all(F.transform(F.filter("files", is_known), lambda file: F.struct(file["path"], "best.state"))).alias("left"),
    ).collect()[0]
    alike: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for one in row.new:
        alike[one.file.source, one.file.size_bytes].append(one)
    paths = sorted([*(path for group in alike.values() for path in _of_alike(group)), *row.copies])
    return ToRead(paths, row.copies, row.files - len(paths), dict(map(tuple, row.left)))


def _all(arrays: Column) -> Column:
    return F.flatten(F.collect_list(arrays))


def _of_alike(group: list[Row]) -> list[str]:
    others = [one.file.path for one in group if not one.bad]
    return others if others and len(others) < len(group) else [min(one.file.path for one in group)]


def journal() -> Column:
    """Return the name that a file has once it is closed."""
    return F.when(
        F.col("source").endswith(OPEN), F.regexp_replace("source", OPEN.replace(".", r"\.") + "$", CLOSED)
    ).otherwise(F.col("source"))
