"""The writes of `ingest`: lines that are new, lines set aside, and the account of the files, which comes last.

Each table is a commit of its own, and readers see what belongs together: the account says at which versions of the
other tables a file's lines are there (`VERSIONS`), and what was committed since does not count (`Tables`). Events come
before traffic, so that a second is never judged by other quotas than its own. Being killed between two commits costs
nothing: `files` does not name the files of that run yet, so the next one reads them again, and of their lines only
those are inserted that are not there.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import TRAFFIC_IDENTITY, Kind

from ..errors import InputError
from . import delta
from .file_accounts import journal
from .schema import EVENTS, FILES, LINES, QUARANTINE, VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, Row

    from .tables import Tables

STAGING = "_staging"
STALE_SECONDS = 86_400
"""The age at which staged files are removed by somebody else: no run takes a day."""
WRITTEN = {"lines": LINES, "events": EVENTS, "quarantine": QUARANTINE, "files": FILES}
PARTITIONS = ("date",)


def create(tables: Tables) -> None:
    """Create the tables of journals that are not there yet; `files` last, by which others know that all are. Others get
    the columns that were added since."""
    for name, schema in WRITTEN.items():
        if delta.exists(tables.storage, tables.path(name)):
            delta.add_columns(tables.spark, tables.path(name), schema)
        else:
            partitions = PARTITIONS if "date" in schema.names else ()
            delta.create(tables.spark, tables.path(name), schema, partitions)


@contextmanager
def stage(tables: Tables, *, now: float) -> Iterator[str]:
    """Yield a staging directory, removed when the block ends; what killed runs left is removed as well.

    now: seconds since 1970.
    """
    storage, staging = tables.storage, tables.storage.under(STAGING)
    for name in storage.names(staging):
        begun = name.partition("-")[0]
        if not begun.isdecimal() or int(begun) < now - STALE_SECONDS:
            with suppress(InputError):  # of another user, perhaps
                storage.remove(f"{staging}/{name}")
    place = f"{staging}/{int(now)}-{uuid.uuid4().hex}"
    try:
        yield place
    finally:
        with suppress(InputError):  # a later run removes it; what this one wrote is written
            storage.remove(place)


def insert_lines(tables: Tables, good: DataFrame) -> None:
    """Insert the lines of journals that are not there yet."""
    dated = good.withColumn("date", F.to_date(F.timestamp_seconds("time")))
    is_traffic = F.col("kind") == Kind.TRAFFIC.value
    lines = dated.where(is_traffic).dropDuplicates(list(TRAFFIC_IDENTITY)).select(LINES.names)
    events = dated.where(~is_traffic).select(EVENTS.names).distinct()
    ends = F.collect_set("date").alias("dates"), F.min("time").alias("first"), F.max("time").alias("last")
    days = {row.is_traffic: row for row in dated.groupBy(is_traffic.alias("is_traffic")).agg(*ends).collect()}
    for name, rows, identity in (("events", events, EVENTS.names), ("lines", lines, list(TRAFFIC_IDENTITY))):
        if (found := days.get(name == "lines")) is not None:
            where = partial(_of_days, found)
            delta.insert_new(tables.spark, tables.path(name), rows, identity=identity, where=where)


def _of_days(days: Row, table: str) -> Column:
    """Return the condition that all rows of a table meet that are of these `dates`, and seconds from `first` to
    `last`."""
    return F.col(f"{table}.date").isin(days.dates) & F.col(f"{table}.time").between(days.first, days.last)


def set_aside(tables: Tables, bad: DataFrame, files: DataFrame) -> None:
    """Make these lines the only ones set aside of the journal files that were read, less those of bad copies beside a
    good one.

    files: the account of what was read.
    """
    is_good = F.bool_or((F.col("state") == "whole") & (F.col("quarantined") == 0)).alias("is_good")
    read = {row.source: row.is_good for row in files.groupBy(journal().alias("source")).agg(is_good).collect()}
    named = bad.withColumn("source", F.regexp_extract("source", r"([^/]+)$", 1)).withColumn("source", journal())
    known = {row.source for row in tables.table("quarantine").select("source").distinct().collect()}
    rows = named.where(F.col("source").isin([name for name in read if not read[name]])).select(QUARANTINE.names)
    if known.intersection(read) or not rows.isEmpty():
        delta.replace(tables.spark, tables.path("quarantine"), rows, of="source", among=[*read])


def add_accounts(tables: Tables, files: DataFrame) -> None:
    """Add the account of the files that were read: from now on their lines count, with all that was committed
    before."""
    # Traffic first: of another writer's that is seen here, the events were committed before.
    versions = {name: delta.latest(tables.storage, tables.path(name)) for name in VERSIONS}
    columns = {column: F.lit(versions[name]).cast("long") for name, column in VERSIONS.items()}
    delta.append(tables.path("files"), files.withColumns(columns).select(FILES.names))
