"""One Delta table: how rows get into it, and at which version it is read.

Knows no journal. Delta's log is the commit protocol: a commit is there whole or not at all, readers never wait, and a
writer that was killed leaves nothing but files that no version names (`VACUUM` removes them). Where two writers change
the same part of a table, Delta refuses the second; it looks again at what is there now, and goes on (`_retried`).

A local disk has no rename that fails if the target is there, so that of two processes each could take its own commit
for the one of a number. There the kernel's lock of a file lets one write after the other; it ends with its process, and
who waits for it says so (`lock`).
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

from delta import exceptions
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from .lock import locked
from .storage import local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .storage import Storage

LOG = "_delta_log"
PROPERTIES = {
    # Statistics of what scopes and merges ask for; the first 32 columns are lists and counts that nobody looks up.
    "delta.dataSkippingStatsColumns": "time,broker",
    # A stream commits every few seconds: small files are put together by the writer that finds many of them.
    "delta.autoOptimize.autoCompact": "true",
    "delta.autoOptimize.optimizeWrite": "true",
}
CONFLICTS: tuple[type[Exception], ...] = tuple(getattr(exceptions, name) for name in exceptions.__all__)
"""The errors of Delta where another commit was faster, which are all that it has in Python; none of them is another's
subclass."""
_TRIES = 50
_PAUSE_SECONDS = 0.5
"""The longest before the second try, twice that before the third, and so on up to `_MAX_PAUSE_SECONDS`."""
_MAX_PAUSE_SECONDS = 5.0


def exists(storage: Storage, path: str) -> bool:
    """Return whether there is a Delta table."""
    return storage.exists(f"{path}/{LOG}")


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Wait until nobody else writes to a table on a local disk; on other file systems Delta's log store decides."""
    place = local(path)
    if place is None:
        yield
        return
    # Not in the table's own directory: Delta creates a table only where nothing is.
    with locked(place.with_name(f"_{place.name}.lock"), of=place):
        yield


def create(spark: SparkSession, path: str, schema: StructType, partitions: Sequence[str]) -> None:
    """Create the table unless it is there."""
    properties = {key: value for key, value in PROPERTIES.items() if key != "delta.dataSkippingStatsColumns"}
    if "time" in schema.names:
        properties = PROPERTIES

    def attempt() -> None:
        builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema).partitionedBy(*partitions)
        for key, value in properties.items():
            builder = builder.property(key, value)
        builder.execute()

    _retried(path, attempt)


def add_columns(spark: SparkSession, path: str, schema: StructType) -> None:
    """Add the columns of `schema` that the table lacks."""

    def attempt() -> None:
        there = set(DeltaTable.forPath(spark, path).toDF().columns)
        missing = [f"`{field.name}` {field.dataType.simpleString()}" for field in schema if field.name not in there]
        if missing:
            spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({', '.join(missing)})")

    _retried(path, attempt)


def insert_new(
    spark: SparkSession, path: str, rows: DataFrame, *, identity: Iterable[str], where: Callable[[str], Column]
) -> None:
    """Insert the rows of which the table has none with the same `identity`. Of the rows each has to be there once.

    where: makes of an alias the condition that all rows of the table meet which may be the same.
    """
    same = reduce(and_, (F.col(f"there.{name}").eqNullSafe(F.col(f"new.{name}")) for name in identity))

    def attempt() -> None:
        table = DeltaTable.forPath(spark, path).alias("there")
        table.merge(rows.alias("new"), where("there") & same).whenNotMatchedInsertAll().execute()

    _retried(path, attempt)


def replace(spark: SparkSession, path: str, rows: DataFrame, *, of: str, among: Sequence[str]) -> None:
    """Make these rows the only ones whose column `of` is `among` these values, in one commit."""
    same = reduce(and_, (F.col(f"there.{name}").eqNullSafe(F.col(f"new.{name}")) for name in rows.columns))

    def attempt() -> None:
        merge = DeltaTable.forPath(spark, path).alias("there").merge(rows.alias("new"), same)
        stale = F.col(f"there.{of}").isin(list(among))
        merge.whenNotMatchedInsertAll().whenNotMatchedBySourceDelete(stale).execute()

    _retried(path, attempt)


def append(path: str, rows: DataFrame) -> None:
    """Add rows, whatever is there. Nobody who appends as well can be in the way."""
    _retried(path, lambda: rows.write.format("delta").mode("append").save(path))


def overwrite(path: str, rows: Callable[[], DataFrame], where: str) -> None:
    """Make these rows the only ones that meet a condition, in one commit. rows: makes them of what is there by then."""
    _retried(path, lambda: rows().write.format("delta").mode("overwrite").option("replaceWhere", where).save(path))


def remove(spark: SparkSession, path: str, where: Column) -> None:
    """Remove the rows that meet a condition."""
    _retried(path, lambda: DeltaTable.forPath(spark, path).delete(where))


def update(spark: SparkSession, path: str, where: Column, columns: Mapping[str, Column]) -> None:
    """Give the rows that meet a condition other values."""
    _retried(path, lambda: DeltaTable.forPath(spark, path).update(where, dict(columns)))


def vacuum(spark: SparkSession, path: str) -> None:
    """Remove files that Delta need not keep for readers any more: no version of the last seven days has them."""
    with writing(path):
        DeltaTable.forPath(spark, path).vacuum()


class Compacted(NamedTuple):
    """The files of a table that were replaced, those that took their place, and the bytes of both."""

    files_before: int
    files: int
    bytes_before: int
    bytes: int


def compact(spark: SparkSession, path: str) -> Compacted:
    """Put small files together in a commit, and remove those that Delta need not keep for readers any more. Rows stay
    as they are; others may read and write meanwhile."""
    table = DeltaTable.forPath(spark, path)
    with writing(path):
        metrics = table.optimize().executeCompaction().select("metrics.*").collect()[0]
    vacuum(spark, path)
    before, after = metrics.filesRemoved.totalSize, metrics.filesAdded.totalSize
    return Compacted(metrics.numFilesRemoved, metrics.numFilesAdded, before or 0, after or 0)


def read(spark: SparkSession, storage: Storage, path: str, version: int | None = None) -> DataFrame | None:
    """Return the table at a version, or as it is now, the same for as long as the frame is used; None if it has no
    version yet."""
    if version is None:
        version = latest(storage, path)
    if version is None:
        return None
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def latest(storage: Storage, path: str) -> int | None:
    """Return the version of the newest commit: each is a file whose name is its number, or was before a checkpoint."""
    numbers = (
        name.partition(".")[0] for name in storage.names(f"{path}/{LOG}") if name.endswith((".json", ".parquet"))
    )
    return max((int(number) for number in numbers if number.isdecimal()), default=None)


def _retried(path: str, attempt: Callable[[], object]) -> None:
    for tried in range(1, _TRIES + 1):
        try:
            with writing(path):
                attempt()
        except CONFLICTS:
            if tried == _TRIES:
                raise
            time.sleep(random.uniform(0, min(_PAUSE_SECONDS * tried, _MAX_PAUSE_SECONDS)))  # noqa: S311
        else:
            return
