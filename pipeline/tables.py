"""The tables that `ingest` writes and every other job reads: where they are, and how they are read.

Invariant: a table that is not there yet reads as one without rows, with its schema.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F

from .errors import InputError
from .paths import literal
from .replaced import REPLACED, Replaced, counts, living, replaced_files
from .schema import EVENTS, FILES, QUARANTINE, SECOND_ROWS, SUMMARIES, TRAFFIC, kept
from .scope import Scope, moment_text
from .settled import settled
from .storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

Found = TypeVar("Found")
EVERYTHING = Scope()
LAYOUT = "_layout_3"
"""This file is there if the tables have this version, in which some files of a table may not count (`replaced`)."""
EARLIER_LAYOUT = "_layout_2"
"""The same for the version before, in which every file counts. It is read in the same way."""
SCHEMAS: dict[str, StructType] = {
    "traffic": TRAFFIC,
    "seconds": SECOND_ROWS,
    "events": EVENTS,
    "files": FILES,
    "quarantine": QUARANTINE,
    **{name: kept(schema) for name, schema in SUMMARIES.items()},
}


DATED = ("traffic", "seconds", "events")
"""Tables that a scope is a part of."""


class Tables:
    def __init__(
        self,
        spark: SparkSession,
        root: str,
        scope: Scope = EVERYTHING,
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._spark, self._tell = spark, tell
        self.storage = Storage(spark, root)
        self.scope = scope

    def within(self, scope: Scope) -> Tables:
        """Return the same tables, of which no more is read than that."""
        return Tables(self._spark, self.storage.root, scope, tell=self._tell)

    def settled(self, listing: Callable[[], Found]) -> Found:
        """Return what `listing` returns, of between two commits."""
        return settled(self.storage, listing, tell=self._tell)

    def reaching_back(self, seconds: int) -> Tables:
        """Return them with so many seconds more before the scope, for what looks back."""
        return self.within(self.scope.reaching_back(seconds))

    def brokers(self) -> set[int]:
        """Return the ids of all that have traffic or events, whatever the scope."""
        return self.settled(self._brokers)

    def _brokers(self) -> set[int]:
        days = (self.storage.under(name, day) for name in ("seconds", "events") for day in self._dates(name))
        found = (one for day in days for one in self.storage.directories(day) if one.startswith("broker="))
        return {int(one.removeprefix("broker=")) for one in found}

    def last_second(self) -> int | None:
        """Return the last second of all that has traffic, whatever the scope; None if there is none."""
        newest = self.settled(lambda: self._newest("seconds", 1))
        found = None if newest is None else newest.agg(F.max("time").alias("last")).first()
        return None if found is None else found.last

    def require(self) -> Tables:
        """Raise InputError unless `ingest` has written here."""
        if not self.settled(lambda: self.storage.exists(self.storage.under("files"))):
            raise InputError(f"{self.storage.root}: no tables here; run `python -m pipeline ingest` first")
        return self.require_layout()

    def require_layout(self) -> Tables:
        """Raise InputError if the tables here are of an earlier version, which had less to say."""
        if not self.has_layout() and self.storage.exists(self.storage.under("files")):
            raise InputError(
                f"{self.storage.root}: tables of an earlier version: ingest the journals into another directory"
            )
        return self

    def has_layout(self) -> bool:
        return any(self.storage.exists(self.storage.under(one)) for one in (LAYOUT, EARLIER_LAYOUT))

    def take_over(self, *, now: float | None = None) -> None:
        """Mark these tables as of this version, so that a program of an earlier one leaves them alone: it would read
        rows twice. For their sole writer. now: seconds since 1970."""
        if self.storage.exists(self.storage.under(LAYOUT)):
            return
        # What files there are, and since when, is known from now on.
        self.storage.replace_text(
            self.storage.under(REPLACED), Replaced(since=int(time.time() if now is None else now)).text
        )
        self.storage.replace_text(self.storage.under(LAYOUT), "")
        self.storage.remove(self.storage.under(EARLIER_LAYOUT))

    def read(self, name: str) -> DataFrame:
        """Return the table's rows within the scope. Of each commit either all of its rows are there or none."""
        return self.settled(lambda: self._read(name))

    def _read(self, name: str) -> DataFrame:
        schema = SCHEMAS[name]
        if not self.storage.exists(self.storage.under(name)):
            return self._spark.createDataFrame([], schema)
        if name in DATED and not self.scope.is_everything:
            # Named one by one, the others are not even listed.
            found = self.partitions(name, self.directories(name))
            return self._spark.createDataFrame([], schema) if found is None else self.scope.cut(found)
        return self.there(name, [""])

    def directories(self, name: str) -> list[str]:
        """Return those of a table by date and broker that may have rows within the scope, as they are below it."""
        days = self.scope.dates(self._dates(name))
        if not self.scope.brokers:
            return days
        return [f"{day}/broker={broker}" for day in days for broker in self.scope.brokers]

    def _dates(self, name: str) -> list[str]:
        return [one for one in self.storage.directories(self.storage.under(name)) if one.startswith("date=")]

    def _newest(self, name: str, days: int) -> DataFrame | None:
        """The last so many dates of a table; None if there are none."""
        dates = reversed(self._dates(name))
        there = dates if self.scope.as_of is None else (date for date in dates if self._paths(name, [date]))
        return self.partitions(name, islice(there, days))

    def partitions(self, name: str, directories: Iterable[str]) -> DataFrame | None:
        """Read only those partitions of a table, named as they are below it; None if none of them is there."""
        found = [one for one in directories if self.storage.exists(self.storage.under(name, one))]
        return self.there(name, found) if found else None

    def there(self, name: str, directories: Iterable[str]) -> DataFrame:
        """The same of partitions that are there, at least one. Raises InputError if the tables are not known as of the
        moment that is asked for."""
        paths = self._paths(name, directories)
        reader = self._spark.read.schema(SCHEMAS[name]).option("basePath", self.storage.under(name))
        return reader.parquet(*paths) if paths else self._spark.createDataFrame([], SCHEMAS[name])

    def _paths(self, name: str, directories: Iterable[str]) -> list[str]:
        """Patterns for all files that count in these directories of a table."""
        replaced, as_of = replaced_files(self.storage), self.scope.as_of
        if as_of is not None and as_of < replaced.since:
            raise InputError(
                f"{self.storage.root}: expected a moment as of which the tables are known,"
                f" {moment_text(replaced.since)} or later (`python -m pipeline compact --keep` says for how long they"
                f" are), found {moment_text(as_of)}"
            )
        places = (f"{name}/{one}".rstrip("/") for one in directories)
        found = (living(self.storage, one, replaced.places, as_of) for one in places)
        return [literal(self.storage.under(path)) for paths in found for path in paths]

    def sizes(self, name: str, directories: Iterable[str]) -> dict[str, list[int]]:
        """Return the bytes of each file that counts in each of these directories of a table."""
        places = replaced_files(self.storage).places
        found = {}
        for one in directories:
            gone = places.get(f"{name}/{one}", {})
            there = self.storage.sizes(self.storage.under(name, one))
            found[one] = [size for file, size in there.items() if counts(file, gone.get(file), self.scope.as_of)]
        return found

    def recent(self, name: str) -> DataFrame:
        """The last two days of a table by date: what a question about now needs, without reading all the others."""
        found = self.settled(lambda: self._newest(name, 2))
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
        """From the beginning, whatever the scope's first second: the quota in force may have been told long before."""
        return self.within(self.scope.from_the_beginning()).read("events")

    @property
    def files(self) -> DataFrame:
        """What is known now of the journals' files, as of whenever the tables are looked at."""
        return self.within(self.scope._replace(as_of=None)).read("files")

    @property
    def quarantine(self) -> DataFrame:
        return self.read("quarantine")


def accounted_bytes() -> Column:
    """What a role's quota counts (KIP-73): wire bytes for the leader, record bytes for the follower."""
    return F.when(F.col("role") == "leader", F.col("wire_bytes")).otherwise(F.col("record_bytes"))
