"""The tables of one directory, as jobs see them: within a scope, and each at one version.

Invariant: a table that is not there yet reads as one without rows, with its schema. What one job reads of a table is
the same from its first question to its last, and `traffic` and `seconds` are made of the same lines. Lines and events
count together with the account of their file, or not at all.
"""

from __future__ import annotations

import datetime as dt
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import LINE_SECONDS

from ..errors import InputError
from . import delta
from .explode_traffic import link_seconds, replica_seconds
from .file_accounts import best
from .schema import EVENTS, FILES, LINES, QUARANTINE, SUMMARIES, VERSIONS, kept
from .scope import Scope
from .storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

EVERYTHING = Scope()
FORMER_LAYOUTS = ("_layout_3", "_layout_2")
"""Files in directories of earlier versions, which had tables of Parquet files and a protocol of their own."""
KEPT = "_kept_since_"
SCHEMAS: dict[str, StructType] = {
    "lines": LINES,
    "events": EVENTS,
    "files": FILES,
    "quarantine": QUARANTINE,
    **{name: kept(schema) for name, schema in SUMMARIES.items()},
}
VIEWS = {"traffic": replica_seconds, "seconds": link_seconds}


class Tables:
    """Read access to the tables below `root`, of the rows within `scope`."""

    def __init__(self, spark: SparkSession, root: str, scope: Scope = EVERYTHING) -> None:
        self.spark = spark
        self.storage = Storage(spark, root)
        self.scope = scope
        self._read: dict[str, DataFrame] = {}
        self._versions: dict[str, int | None] = {}

    def within(self, scope: Scope) -> Tables:
        """Return the same tables at the same versions, of which no more is read than that."""
        found = Tables(self.spark, self.storage.named, scope)
        found._read, found._versions = self._read, self._versions
        return found

    def reaching_back(self, seconds: int) -> Tables:
        """Return them with so many seconds more before the scope, for what looks back."""
        return self.within(self.scope.reaching_back(seconds))

    def now(self) -> Tables:
        """Return the tables as they are by now."""
        return Tables(self.spark, self.storage.named, self.scope)

    def path(self, name: str) -> str:
        """Return where a table is."""
        return self.storage.under(name)

    def require(self) -> Tables:
        """Raise InputError unless `ingest` has written here."""
        self.require_layout()
        if not delta.exists(self.storage, self.path("files")):
            raise InputError(f"{self.storage.named}: no tables here; run `python -m pipeline ingest` first")
        return self

    def require_layout(self) -> Tables:
        """Raise InputError if the tables here are those of an earlier version."""
        former = any(self.storage.exists(self.storage.under(one)) for one in FORMER_LAYOUTS)
        if former or (self.storage.exists(self.path("files")) and not delta.exists(self.storage, self.path("files"))):
            raise InputError(
                f"{self.storage.named}: tables of an earlier version, which are no Delta tables: ingest the journals"
                " into another directory"
            )
        return self

    def kept_since(self) -> dt.date | None:
        """Return the day from which on the tables are kept, if `keep` has ever removed what was older."""
        names = (name for name in self.storage.names(self.storage.root) if name.startswith(KEPT))
        return max((dt.date.fromisoformat(name.removeprefix(KEPT)) for name in names), default=None)

    def mark_kept(self, since: dt.date) -> None:
        """Record the first day that is kept, by the name of a file."""
        self.storage.write_text(self.storage.under(f"{KEPT}{since}"), "")
        for name in self.storage.names(self.storage.root):
            if name.startswith(KEPT) and name != f"{KEPT}{since}":
                with suppress(InputError):  # the latest day counts
                    self.storage.remove(self.storage.under(name))

    def table(self, name: str) -> DataFrame:
        """Return all rows of a table."""
        if name not in self._read:
            self._read[name] = self._open(name)
        return self._read[name]

    def _open(self, name: str) -> DataFrame:
        path = self.path(name)
        version = self.versions()[name] if name in VERSIONS else None
        found = delta.read(self.spark, self.storage, path, version) if delta.exists(self.storage, path) else None
        return self.spark.createDataFrame([], SCHEMAS[name]) if found is None else _complete(found, SCHEMAS[name])

    def versions(self) -> dict[str, int | None]:
        """Return the versions of lines and events up to which files are accounted for; None: as they are now, since an
        earlier release has written last, which did not say so. Without an account nothing counts: version 0, which has
        no rows."""
        if self._versions:
            return self._versions
        taken = F.max("taken").alias("taken")
        newest = [F.max(column).alias(name) for name, column in VERSIONS.items()]
        told = F.col(VERSIONS["lines"]).isNotNull().alias("told")
        found = {row.told: row for row in self.table("files").groupBy(told).agg(taken, *newest).collect()}
        known, unknown = found.get(True), found.get(False)
        if known is None or (unknown is not None and unknown.taken > known.taken):
            self._versions.update(dict.fromkeys(VERSIONS, None if found else 0))
        else:
            self._versions.update({name: known[name] for name in VERSIONS})
        return self._versions

    def _view(self, name: str) -> DataFrame:
        """Return the rows of a view within the scope."""
        # A line begins up to `LINE_SECONDS` - 1 before its last second.
        around = self.scope.reaching_back(LINE_SECONDS - 1)
        return self.scope.cut(VIEWS[name](around.cut_table(self.table("lines"))))

    def brokers(self) -> set[int]:
        """Return the ids of all that have traffic or events, whatever the scope."""
        found = self.table("lines").select("broker").union(self.table("events").select("broker")).distinct()
        return {row.broker for row in found.collect()}

    def last_second(self) -> int | None:
        """Return the last second of all that has traffic, whatever the scope; None if there is none."""
        row = self.within(EVERYTHING).recent("seconds").agg(F.max("time").alias("last")).first()
        return None if row is None else row.last

    def recent(self, name: str) -> DataFrame:
        """Return a view's rows of the last two days: what a question about now needs, without reading the others."""
        # Delta answers this from its log.
        newest = self.table("lines").agg(F.max("date").alias("date")).first()
        if newest is None or newest.date is None:
            return self.spark.createDataFrame([], VIEWS[name](self.table("lines")).schema)
        lines = self.table("lines").where(F.col("date") >= F.date_sub(F.lit(newest.date), 1))
        return VIEWS[name](lines)

    @property
    def traffic(self) -> DataFrame:
        """One row per second, link and partition with news."""
        return self._view("traffic")

    @property
    def seconds(self) -> DataFrame:
        """The sums of `traffic` over partitions, exact in every second."""
        return self._view("seconds")

    @property
    def events(self) -> DataFrame:
        """The lines from the beginning, whatever the scope's first second: the quota in force may have been told long
        before."""
        return self.scope._replace(since=None).cut_table(self.table("events"))

    @property
    def files(self) -> DataFrame:
        """The best account that there is of each journal file."""
        return best(self.table("files"))

    @property
    def quarantine(self) -> DataFrame:
        return self.table("quarantine")


class CachedFrames(ExitStack):
    """Frames that are worked out once for all who read them, and freed at the end of a `with` block.

    A frame is only a plan: if two questions read it, Spark works it out twice. It does not notice that both shuffle the
    same rows, because each question takes only the columns that it needs. Nothing is held beyond the block: a held
    frame shows the files as they were, and a later job has to read them as they are then.
    """

    def once(self, frame: DataFrame) -> DataFrame:
        """Return it, to be worked out when it is first asked of and held from then on: in memory, else on disk."""
        self.callback(frame.unpersist)
        return frame.cache()


def _complete(found: DataFrame, schema: StructType) -> DataFrame:
    """Return a table with the columns that were added since it was written, as null."""
    missing = {field.name: F.lit(None).cast(field.dataType) for field in schema if field.name not in found.columns}
    return found.withColumns(missing).select(schema.names) if missing else found


def accounted_bytes() -> Column:
    """Return the bytes that a role's quota counts (KIP-73): a leader's wire bytes, a follower's record bytes."""
    return F.when(F.col("role") == "leader", F.col("wire_bytes")).otherwise(F.col("record_bytes"))
