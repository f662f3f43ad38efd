"""Retention: what is older than some days leaves the tables, and journals that are in them leave their folders.

Each table is a commit of its own, and none of them counts before the last one (`Tables`): readers see the days as they
were, or without. Traffic goes before events, and of these the quotas and racks stay that hold when the kept days begin,
so that a second is never judged without its own quotas. First of all a mark says from when on the tables are kept:
older lines are not taken again, nor are files last modified before that. The accounts of these go last, after the files
themselves: without its account nothing says that a journal was taken as it is, and one that a killed `keep` left there
would stay for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..errors import InputError
from ..tables import delta
from ..tables.file_accounts import journal
from ..tables.schema import SUMMARIES, VERSIONS
from ..tables.scope import began
from ..tables.tables import SCHEMAS
from ..terminal import listed
from .ingest import find_files, matching

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from ..tables import Tables
    from ..tables.storage import Storage

TAKEN = ("whole", "torn", "damaged")
"""States of closed files whose lines are in the tables, as far as there are any and none was set aside."""
MAX_DAYS = 5
MAX_FILES = 5


def keep(tables: Tables, since: dt.date, journals: Sequence[str] = (), *, dry_run: bool = False) -> Iterator[str]:
    """Remove what is older than that day (UTC), and say what. Raises InputError without tables, without `journals`, or
    if one of these files cannot be removed.

    journals: folders, or patterns, of which the files are removed that were last modified before that day, and whose
    account says that they were taken as they are, with no line set aside. dry_run: remove nothing.
    """
    tables = tables.require().now()
    taken, set_aside = _taken(tables, journals, since) if journals else ([], 0)
    for name in ("lines", "events", *SUMMARIES):
        if delta.exists(tables.storage, tables.path(name)):
            yield f"{name}: {_told(tables.table(name).where(F.col('date') < F.lit(since)))}"
    old = tables.table("files").where(_is_old(since))
    yield f"files: {old.count():,} accounts"
    if journals:
        yield f"journal files: {len(taken):,}, {sum(row.size_bytes for row in taken) / 1e6:,.1f} MB"
    if set_aside:
        yield f"journal files that stay, since lines of them were set aside: {set_aside:,}"
    if not dry_run:
        forgotten = _remove(tables, since)
        # Once the removal of their lines counts: until then nothing is removed for good.
        _remove_files(tables.storage, [row.path for row in taken])
        delta.remove(tables.spark, tables.path("files"), forgotten)


def _remove_files(storage: Storage, paths: Sequence[str]) -> None:
    """Remove all of these files that can be. Raises InputError if some cannot."""
    failed = []
    for path in paths:
        try:
            storage.remove(path)
        except InputError as error:
            failed.append(str(error))
    if failed:
        raise InputError(
            f"{len(failed):,} of {len(paths):,} journal files are still there, with their accounts, so that the next"
            f" keep removes them: {listed(failed, MAX_FILES)}"
        )


def _told(rows: DataFrame) -> str:
    days = rows.groupBy("date").agg(F.count("*").alias("rows")).orderBy("date").collect()
    of = f" of {listed((day.date for day in days), MAX_DAYS)}" if days else ""
    return f"{sum(day.rows for day in days):,} rows{of}"


def _is_old(since: dt.date) -> Column:
    return F.coalesce(F.col("modified"), F.timestamp_seconds("taken")) < began(since)


def _taken(tables: Tables, journals: Sequence[str], since: dt.date) -> tuple[list[Row], int]:
    """Return the old files that were taken whole, and how many were taken but for lines that were set aside: the next
    release may understand these."""
    found = find_files(tables.spark, tables.storage, matching(tables.storage, journals))
    old = found.where(F.col("modified") < began(since))
    known = tables.table("files").where(F.col("state").isin(list(TAKEN)))
    each = known.groupBy("source", "size_bytes").agg(F.min("quarantined").alias("quarantined"))
    rows = old.join(each, on=["source", "size_bytes"]).select("path", "size_bytes", "quarantined").collect()
    taken = [row for row in rows if not row.quarantined]
    return taken, len(rows) - len(taken)


def _remove(tables: Tables, since: dt.date) -> Column:
    """Remove what is older; return which accounts may go."""
    spark, old = tables.spark, F.col("date") < F.lit(since)
    tables.mark_kept(since)
    delta.remove(spark, tables.path("lines"), old)
    delta.overwrite(tables.path("events"), lambda: _in_force(_now(tables, "events").where(old)), f"date < '{since}'")
    for name in SUMMARIES:
        if delta.exists(tables.storage, tables.path(name)):
            delta.remove(spark, tables.path(name), old)
    # The newest account says at which versions the tables count: one of them has to stay, however old.
    taken, is_old = F.col("taken"), _is_old(since)
    ends = (
        tables.table("files").agg(F.max(taken).alias("all"), F.max(F.when(~is_old, taken)).alias("kept")).collect()[0]
    )
    newest = ends["all"] if ends.kept is None else ends.kept
    forgotten: Column = is_old & ((taken != newest) | F.lit(ends.kept is not None))
    accounts = _now(tables, "files").where(~forgotten)
    kept = {row.source for row in accounts.select(journal().alias("source")).distinct().collect()}
    aside = {row.source for row in tables.table("quarantine").select("source").distinct().collect()}
    if aside - kept:
        delta.remove(spark, tables.path("quarantine"), F.col("source").isin(sorted(aside - kept)))
    versions = {name: delta.latest(tables.storage, tables.path(name)) for name in VERSIONS}
    # Another writer's may be newer by now, and say later ones.
    delta.update(
        spark, tables.path("files"), taken >= newest,
        {column: F.greatest(column, F.lit(versions[name])) for name, column in VERSIONS.items()},
    )  # fmt: skip
    for name in SCHEMAS:
        if delta.exists(tables.storage, tables.path(name)):
            delta.vacuum(spark, tables.path(name))
    return forgotten


def _now(tables: Tables, name: str) -> DataFrame:
    found = delta.read(tables.spark, tables.storage, tables.path(name))
    return tables.table(name) if found is None else found


def _in_force(events: DataFrame) -> DataFrame:
    """Return the last quotas of each role, and the last file of each broker, which says its rack."""
    each = Window.partitionBy("broker", "kind", "role")
    said = events.where(F.col("kind").isin("quota", "file_opened")).withColumn("last", F.max("time").over(each))
    return said.where("time = last").drop("last")
