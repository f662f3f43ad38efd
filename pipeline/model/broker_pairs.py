"""Waves of moves: what one broker brought to another in one go, the moves of a link that are near in time.

Makes of the moves (`moves`) one row per link and wave; no more of them comes to the driver. Two migrations that are
weeks apart are two waves, even between the same brokers: as one they would have a backlog that there never was, and
take weeks. Invariant: every move is in exactly one wave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from .fluid import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

APART_SECONDS = 60
"""The time without a move on the link after which the next move begins a new wave."""


class Pair(NamedTuple):
    """A link's wave."""

    source: str
    destination: str
    moves: int
    unfinished: int
    bytes: int
    began: int
    ended: int
    """The last second of the last one."""
    share_held: float
    """The share of the moves' seconds in which a quota set the pace."""
    backlog_bytes: float = 0.0
    """The bytes that its moves had to bring when each began."""
    written_bytes: float = 0.0
    """The bytes that were written to them while they were under way."""
    leader_held: float = 0.0
    """The share of the moves' seconds in which the source's quota set the pace."""
    follower_held: float = 0.0
    """The share of the moves' seconds in which the destination's quota did."""
    unknown: int = 0
    """Moves of which nobody knows what there was to bring, since the high watermark was never told; `backlog_bytes` is
    without them."""

    @property
    def stream(self) -> Stream:
        """The input of the fluid model; `starts` in seconds since 1970."""
        seconds = float(max(self.ended - self.began, 1))
        return Stream(
            self.source, self.destination, self.backlog_bytes, float(self.began), self.written_bytes / seconds, seconds
        )


def pairs(found_moves: DataFrame) -> Sequence[Pair]:
    """Group moves by link and wave, the one that ended last first."""
    link = ("source", "destination")
    in_order = Window.partitionBy(*link).orderBy("began")
    ends = F.col("began") + F.col("seconds")
    reached = F.max(ends).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.coalesce(F.col("began") - reached > APART_SECONDS, F.lit(False)).cast("int")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = found_moves.withColumn("apart", apart).withColumn("wave", F.sum("apart").over(so_far))
    shares = (F.greatest("leader_share", "follower_share"), F.col("leader_share"), F.col("follower_share"))
    held, by_leader, by_follower = (F.try_divide(F.sum(share * F.col("seconds")), F.sum("seconds")) for share in shares)
    rows = numbered.groupBy(*link, "wave").agg(
        F.count("*").alias("moves"), F.count_if(~F.col("finished")).alias("unfinished"),
        F.sum("bytes").alias("bytes"), F.min("began").alias("began"), F.max(ends).alias("ended"),
        held.alias("share_held"), F.sum("backlog_bytes").alias("backlog_bytes"),
        F.sum("written_bytes").alias("written_bytes"), by_leader.alias("leader_held"),
        by_follower.alias("follower_held"), F.count_if(F.col("backlog_bytes").isNull()).alias("unknown"),
    ).drop("wave").na.fill(0.0)  # fmt: skip
    return [Pair(*row) for row in rows.orderBy(F.desc("ended"), *link, "began").collect()]
