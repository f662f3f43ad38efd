"""Finds the move that hurt producers: moves beside quotas that gave way (`pressed`) and pauses of followers that were
in sync.

A follower in sync that gets nothing for some seconds, while it got something before and after, holds up producers that
wait for all replicas. Pauses happen without moves as well, where nothing is written. So a broker's share of paused
seconds during a move is held against its share without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..jobs.moves import times_behind, unpaced
from ..jobs.quotas import ROLE
from ..model.broker_pairs import pairs
from ..tables import CachedFrames
from ..units import duration
from .answer import LEADER_RATE, Answer, Verdict, counted, moment, set_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from ..model.broker_pairs import Pair
    from ..tables import Tables
    from ..units import Units

QUESTION = "which-move-hurt"
MAX_LISTED = 8
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 3, 60
"""A shorter pause is how followers fetch; after a longer one nobody knows whether anything was written."""
TIMES_MORE = 2.0
"""A move hurts if the share of paused seconds is at least so many times what it is without one."""


class Hurt(NamedTuple):
    """A move of one broker to another. pressed: how often a quota of either gave way to producers meanwhile.
    paused_seconds: of in-sync followers at either, and `usual_seconds` of them in as much time without a move."""

    pair: Pair
    pressed: int
    paused_seconds: int
    usual_seconds: float

    @property
    def is_hurting(self) -> bool:
        """True if producers felt it."""
        more = self.paused_seconds >= max(MIN_PAUSE_SECONDS, TIMES_MORE * self.usual_seconds)
        return self.pressed > 0 or more


class Moved(NamedTuple):
    moves: int
    hurting: tuple[Hurt, ...]
    """The worst first."""


def facts(tables: Tables) -> Moved:
    """Work it out: a row for each pair of brokers and wave of moves."""
    found = pairs(unpaced(times_behind(tables)))
    if not found:
        return Moved(0, ())
    return judged(found, tables.scope.cut(tables.events), tables.seconds)


def judged(found: Sequence[Pair], events: DataFrame, link_seconds: DataFrame) -> Moved:
    """Return the facts from the moves, the events and the seconds of links of the same scope."""
    spark = events.sparkSession
    sides = [
        (number, int(broker), role, pair.began, pair.ended)
        for number, pair in enumerate(found)
        for broker, role in ((pair.source, "leader"), (pair.destination, "follower"))
        if broker.isdecimal()
    ]
    moves = F.broadcast(spark.createDataFrame(sides, "number int, broker long, role string, began long, ended long"))
    during = F.col("time").between(F.col("began"), F.col("ended"))
    at = events.where("kind = 'quota' and reason = 'pressed'").select(*ROLE, "time")
    pressed = moves.join(at, on=list(ROLE)).where(during).groupBy("number").agg(F.count("*").alias("pressed"))
    with CachedFrames() as held:
        paused = held.once(pauses(link_seconds))
        inside = moves.join(paused, on=list(ROLE)).where(during).groupBy("number")
        sums = inside.agg(F.sum("paused").alias("paused"), F.sum("seconds").alias("seconds"))
        # Of a broker with several moves a second outside of one may be inside of another one: it counts as usual too.
        outside = paused.join(moves, on=list(ROLE), how="left").where(F.col("began").isNull() | ~during).groupBy(*ROLE)
        usual = moves.join(outside.agg((F.sum("paused") / F.sum("seconds")).alias("share")), on=list(ROLE), how="left")
        shares = usual.groupBy("number").agg(F.max("share").alias("share"))
        rows = shares.join(sums, on="number", how="left").join(pressed, on="number", how="left").na.fill(0).collect()
    hurts = [Hurt(found[row.number], row.pressed, row.paused, row.share * row.seconds) for row in rows]
    hurting = sorted(
        (one for one in hurts if one.is_hurting), key=lambda one: (-one.pressed, -one.paused_seconds, one.pair)
    )
    return Moved(len(found), tuple(hurting))


def pauses(link_seconds: DataFrame) -> DataFrame:
    """Return one row per second in which an in-sync follower got something: `seconds` since the one before, and of them
    `paused` if these were a pause. Longer silences are not there."""
    moved = link_seconds.where("in_sync and record_bytes > 0").select(*ROLE, "peer", "time").distinct()
    before = F.lag("time").over(Window.partitionBy(*ROLE, "peer").orderBy("time"))
    gaps = moved.withColumn("seconds", F.col("time") - before).where(F.col("seconds") <= MAX_PAUSE_SECONDS + 1)
    pause = F.col("seconds") - 1
    return gaps.withColumn("paused", F.when(pause >= MIN_PAUSE_SECONDS, pause).otherwise(0))


def answer(found: Moved, units: Units) -> Answer:
    """Tell it; `number` is how many moves hurt."""
    if not found.moves:
        return Answer(QUESTION, Verdict.UNKNOWN, "Nothing moved.", 0.0, "moves")
    doubts = (
        "by the clocks of the brokers' machines, which may differ by seconds",
        "who pauses is told from bytes: producers that wrote less meanwhile look the same",
    )
    if not found.hurting:
        sentence = (
            f"None of {counted(found.moves, 'move')}: no quota gave way to producers, and no in-sync follower paused"
            " more than without a move."
        )
        return Answer(QUESTION, Verdict.GOOD, sentence, 0.0, "moves", uncertainty=doubts)
    told = tuple(_hurt(one, units) for one in found.hurting[:MAX_LISTED])
    more = f", and {counted(len(found.hurting) - 1, 'more move')}" if len(found.hurting) > 1 else ""
    number = float(len(found.hurting))
    pair = found.hurting[0].pair
    slower = units.rounded_up(pair.bytes / max(pair.ended - pair.began, 1) / 2)
    command = set_rate(pair.source, LEADER_RATE, slower, units)
    return Answer(QUESTION, Verdict.BAD, f"{told[0]}{more}.", number, "moves", told, doubts, command)


def _hurt(one: Hurt, units: Units) -> str:
    pair = one.pair
    said = [f"a quota gave way to producers {counted(one.pressed, 'time')}"] if one.pressed else []
    if one.paused_seconds:
        usual = f" (usual: {duration(one.usual_seconds)})"
        said.append(f"in-sync followers paused for {duration(one.paused_seconds)}{usual}")
    return (
        f"The move from {pair.source} to {pair.destination}, {units.size(pair.bytes)} in"
        f" {duration(pair.ended - pair.began)} from {moment(pair.began)}: {', '.join(said)}"
    )
