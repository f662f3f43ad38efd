"""The bytes that each replica that is behind has still to bring, and its speed: each replica once.

DataFrame → DataFrame, a row per replica. Quotas are bytes, and so is this: of two partitions one may have messages of a
kilobyte and the other of a megabyte. Invariant: a replica is told by one of its ends alone, the one that saw more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from .link_ends import END, REPLICA, of_one_end, seconds_of_ends

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from ..tables import Tables

RECENT_SECONDS = 60


class Waiting(NamedTuple):
    """A replica that is behind.

    role: the end that tells of it. began, last: its first and last second behind. lag: in messages, at the last.
    remaining: bytes now; None if no message of its source was seen. observed: of the last `RECENT_SECONDS` those in
    which it was behind; rate, written: bytes per second in these, brought and written by producers.
    """

    source: str
    destination: str
    topic: str
    partition: int
    role: str
    began: int
    last: int
    lag: int
    remaining: float | None
    observed: int
    rate: float
    written: float

    @property
    def name(self) -> str:
        """``orders-0 from 101 to 102``."""
        return f"{self.topic}-{self.partition} from {self.source} to {self.destination}"

    @property
    def broker(self) -> tuple[int, str] | None:
        """The broker whose sidecar tells of it, and its role; None if it never said its id."""
        own = self.source if self.role == "leader" else self.destination
        return (int(own), self.role) if own.isdecimal() else None


def waiting(tables: Tables, behind: DataFrame, now: int) -> list[Waiting]:
    """Return the replicas that are behind at the second `now`, or were when they fell silent. behind: what
    `moves.times_behind` says of these tables."""
    behind = _behind(behind)
    since = now - RECENT_SECONDS + 1
    last_minute = tables.scope._replace(since=max(since, tables.scope.since or since), until=now + 1)
    recent = _recent(tables.within(last_minute).traffic.where("throttled"))
    rows = behind.join(recent, on=list(END), how="left").orderBy(*REPLICA).collect()
    return [_waiting(row, now) for row in rows]


def _waiting(row: Row, now: int) -> Waiting:
    observed = max(row.ended - max(row.began, now - RECENT_SECONDS + 1) + 1, 1)
    size = row.size or 0.0
    rate, written = (row.bytes or 0) / observed, (row.grown or 0) * size / observed
    # A line is about up to fifteen seconds: one end may be told of up to a later second than another.
    left = max(row.lag * size - (rate - written) * (now - row.ended), 0.0)
    return Waiting(
        row.source, row.destination, row.topic, row.partition, row.role, row.began, row.ended, row.lag,
        None if row.size is None else left, observed, rate, written,
    )  # fmt: skip


def _behind(episodes: DataFrame) -> DataFrame:
    """Return each replica's last time behind, if that did not end with it in sync, and the `size` of a message: of
    those brought in that time, or of its partition's, or of its source's."""
    messages = F.greatest(F.col("to_offset") - F.col("from_offset"), F.lit(0))
    told = episodes.withColumn("messages", messages)

    def size_of(*keys: str) -> Column:
        over = Window.partitionBy(*keys)
        moved = F.when(F.col("messages") > 0, F.col("bytes"))
        return F.try_divide(F.sum(moved).over(over), F.sum("messages").over(over))

    own = F.try_divide(F.when(F.col("messages") > 0, F.col("bytes")), F.col("messages"))
    sized = told.withColumn("size", F.coalesce(own, size_of("source", "topic", "partition"), size_of("source")))
    latest = sized.withColumn("turn", F.row_number().over(Window.partitionBy(*END).orderBy(F.desc("began"))))
    chosen = of_one_end(latest.where("turn = 1"), "bytes", "ended")
    lag = F.greatest(F.coalesce(F.col("to_watermark") - F.col("to_offset"), F.lit(0)), F.lit(0))
    return chosen.where(~F.col("finished")).select(*END, "began", "ended", lag.alias("lag"), "size").where("lag > 0")


def _recent(traffic: DataFrame) -> DataFrame:
    known = F.when(F.col("high_watermark") >= 0, F.col("high_watermark"))
    return seconds_of_ends(traffic).groupBy(*END).agg(
        F.sum("bytes").alias("bytes"), (F.max(known) - F.min(known)).alias("grown")
    )  # fmt: skip
