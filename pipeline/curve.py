"""How long what was recorded would have taken under other quotas, and how far the model is from what it did take.

From the tables to a few values: the fluid model (`fluid`) is run at the driver, on a row per pair of brokers. Every
quota in force is scaled by the same factor, so that brokers with quotas of their own keep their proportions.

Invariant: the recorded result stands beside the model's answer for the same quotas, always.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from .fluid import finish_times
from .measured import inflow
from .moves import moves
from .quotas import UNLIMITED, periods
from .streams import streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from .fluid import Stream
    from .simulation import Quotas
    from .tables import Tables

LINE_BYTES_PER_SECOND = 125_000_000.0
"""What a link carries if nobody says otherwise: a gigabit."""
FACTORS = tuple(2.0 ** (step / 2) for step in range(-6, 7))
"""From an eighth of the quotas to eight times them."""
MOST_FACTOR = 1024.0
EXACT = 1.0001
"""How near two factors are that count as one."""


class Pair(NamedTuple):
    """What one broker brought to another: the recorded moves of a link together."""

    source: str
    destination: str
    moves: int
    unfinished: int
    bytes: int
    began: int
    ended: int
    """The last second of the last one."""
    share_held: float
    """Of the moves' seconds, those in which a quota set the pace."""


class Recorded(NamedTuple):
    """What is to be scaled, and what it took. quotas: the last that was in force of each broker and role."""

    streams: tuple[Stream, ...]
    quotas: Quotas
    pairs: tuple[Pair, ...]
    inflow: dict[str, float]
    """Broker to what it takes in in sync, bytes per second in all but its busiest minutes."""

    @property
    def finished(self) -> bool:
        return bool(self.pairs) and not any(pair.unfinished for pair in self.pairs)

    @property
    def seconds(self) -> float:
        """In which moves were under way."""
        return _busy((pair.began, pair.ended) for pair in self.pairs)

    @property
    def share_held(self) -> float:
        """Of all moves' seconds those in which a quota set the pace, by the bytes of each link."""
        whole = sum(pair.bytes for pair in self.pairs)
        return sum(pair.share_held * pair.bytes for pair in self.pairs) / whole if whole else 0.0

    def seconds_at(self, factor: float, *, line_bytes_per_second: float = LINE_BYTES_PER_SECOND) -> float:
        """What the model says all of it takes at so many times the quotas; infinity if it never ends."""
        scaled = {key: limit * factor for key, limit in self.quotas.items()}
        found = finish_times(self.streams, scaled, line_bytes_per_second=line_bytes_per_second)
        if None in found:
            return math.inf
        return _busy((one.starts, end or 0.0) for one, end in zip(self.streams, found, strict=True))

    @property
    def error(self) -> float | None:
        """By how much the model's answer for the recorded quotas is beside what was recorded, as a part of it; None if
        that did not end, or took no time."""
        if not self.finished or self.seconds < 1:
            return None
        return self.seconds_at(1.0) / self.seconds - 1

    def factor_for(self, seconds: float) -> float | None:
        """The least factor with which it takes no longer; None if none of them does."""
        if self.seconds_at(MOST_FACTOR) > seconds:
            return None
        low, high = 1 / MOST_FACTOR, MOST_FACTOR
        while high / low > EXACT:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.seconds_at(middle) <= seconds else (middle, high)
        return high


def _busy(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of what they cover together: weeks between two migrations are no part of either."""
    covered, reached = 0.0, -math.inf
    for began, ended in sorted(intervals):
        covered += max(ended - max(began, reached), 0.0)
        reached = max(reached, ended)
    return covered


def recorded(tables: Tables, found_moves: DataFrame | None = None) -> Recorded:
    """Work it out: a row per pair of brokers and one per quota.

    found_moves: what `moves.moves` says of these tables, if somebody has it.
    """
    events = tables.events
    if found_moves is None:
        found_moves = moves(tables.traffic, events, tables.seconds)
    limited = periods(events).where((F.col("limit") < UNLIMITED) & F.col("enforce"))
    last = limited.groupBy("broker", "role").agg(F.max_by("limit", "since").alias("limit")).collect()
    return Recorded(
        tuple(streams(tables.traffic)),
        {(str(row.broker), row.role): row.limit for row in last},
        tuple(pairs(found_moves)),
        {str(row.broker): row.inflow_bytes_per_second for row in inflow(tables.seconds).collect()},
    )


def pairs(found_moves: DataFrame) -> Sequence[Pair]:
    """Moves by link, the one that ended last first."""
    held = F.greatest("leader_share", "follower_share") * F.col("seconds")
    rows = found_moves.groupBy("source", "destination").agg(
        F.count("*").alias("moves"), F.count_if(~F.col("finished")).alias("unfinished"),
        F.sum("bytes").alias("bytes"), F.min("began").alias("began"),
        F.max(F.col("began") + F.col("seconds")).alias("ended"),
        F.coalesce(F.try_divide(F.sum(held), F.sum("seconds")), F.lit(0.0)).alias("share_held"),
    )  # fmt: skip
    return [Pair(*row) for row in rows.orderBy(F.desc("ended"), "source", "destination").collect()]
