"""The tables that `ingest` writes and every other job reads: where they are, and how they are read.

Invariant: a table that is not there yet reads as one without rows, with its schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from .errors import InputError
from .paths import literal
from .schema import EVENTS, FILES, QUARANTINE, SECOND_ROWS, TRAFFIC
from .storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

LAYOUT = "_layout_2"
"""Is there if the tables are of this version, whose `traffic` says where a replica was before each second."""
SCHEMAS: dict[str, StructType] = {
    "traffic": TRAFFIC,
    "seconds": SECOND_ROWS,
    "events": EVENTS,
    "files": FILES,
    "quarantine": QUARANTINE,
}


class Tables:
    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self.storage = Storage(spark, root)

    def require(self) -> Tables:
        """Raise InputError unless `ingest` has written here."""
        if not self.storage.exists(self.storage.under("files")):
            raise InputError(f"{self.storage.root}: no tables here; run `python -m pipeline ingest` first")
        return self.require_layout()

    def require_layout(self) -> Tables:
        """Raise InputError if the tables here are of an earlier version, which had less to say."""
        is_ours = self.storage.exists(self.storage.under(LAYOUT))
        if not is_ours and self.storage.exists(self.storage.under("files")):
            raise InputError(
                f"{self.storage.root}: tables of an earlier version: ingest the journals into another directory"
            )
        return self

    def read(self, name: str) -> DataFrame:
        schema = SCHEMAS[name]
        path = self.storage.under(name)
        if not self.storage.exists(path):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(literal(path))

    def partitions(self, name: str, directories: Iterable[str]) -> DataFrame | None:
        """Read only those partitions of a table, named as they are below it; None if none of them is there."""
        paths = [path for one in directories if self.storage.exists(path := self.storage.under(name, one))]
        if not paths:
            return None
        reader = self._spark.read.schema(SCHEMAS[name]).option("basePath", self.storage.under(name))
        return reader.parquet(*map(literal, paths))

    def recent(self, name: str) -> DataFrame:
        """The last two days of a table by date: what a question about now needs, without reading all the others."""
        dates = [one for one in self.storage.directories(self.storage.under(name)) if one.startswith("date=")]
        found = self.partitions(name, sorted(dates)[-2:])
        return self._spark.createDataFrame([], SCHEMAS[name]) if found is None else found

    @property
    def traffic(self) -> DataFrame:
        return self.read("traffic")

    @property
    def seconds(self) -> DataFrame:
        """What `traffic` has, summed up over partitions, exact in every second."""
        return self.read("seconds")

    @property
    def events(self) -> DataFrame:
        return self.read("events")

    @property
    def files(self) -> DataFrame:
        return self.read("files")

    @property
    def quarantine(self) -> DataFrame:
        return self.read("quarantine")


def accounted_bytes() -> Column:
    """What a role's quota counts (KIP-73): wire bytes for the leader, record bytes for the follower."""
    return F.when(F.col("role") == "leader", F.col("wire_bytes")).otherwise(F.col("record_bytes"))
