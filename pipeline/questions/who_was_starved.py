"""Finds replicas that were starved: they stood still while others moved through the same budget.

A budget's turns go round. So within a minute every replica that is behind gets some bytes, unless there are more
replicas than turns. Facts are by the minute. A replica is starved if it was behind and left out all through a minute
and got nothing, although the same budget moved bytes of others that were behind, whether or not these were ever held
back themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..jobs.quotas import ROLE
from ..tables import CachedFrames
from ..tables.daily_summaries import DAY_SECONDS, Summary, read_summary
from ..terminal import printable
from .answer import STATUS, Answer, Verdict, counted, moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from ..tables import Tables
    from ..units import Units

QUESTION = "who-was-starved"
MINUTE = 60
MAX_REPLICAS = 8
REPLICA = (*ROLE, "peer", "topic", "partition")
WHOLE = 55
"""The number of seconds of a minute that a replica must have been behind for the whole minute to count."""
MIN_MINUTES = 2
"""The number of minutes in a row: where many share little, a turn may take longer than a minute to come round."""


class Starved(NamedTuple):
    minutes: int
    """Minutes of replicas that were behind all through."""
    replicas: int
    """Replicas that stood still for `MIN_MINUTES` in a row or longer."""
    rows: tuple[Row, ...]
    """The replicas that did so longest: REPLICA, `minutes`, `first`, `others_bytes` (moved meanwhile)."""
    least_share: Row | None
    """The replica with the least of its fair share, of those that got something in each minute: REPLICA, `share`,
    `minute`."""


def facts(tables: Tables) -> Starved:
    """Work it out: some rows, however many replicas."""
    with CachedFrames() as held:
        minutes = held.once(shared(read_summary(tables, SUMMARY)))
        in_order = Window.partitionBy(*REPLICA).orderBy("minute")
        still = minutes.where("bytes = 0").drop("others").join(_caught_up_by(tables), on=[*ROLE, "minute"], how="inner")
        run = F.col("minute") - F.row_number().over(in_order)
        runs = still.withColumn("run", run).groupBy(*REPLICA, "run").agg(
            F.count("*").alias("minutes"), (F.min("minute") * MINUTE).alias("first"),
            F.sum("others").alias("others_bytes"),
        )  # fmt: skip
        long = runs.where(F.col("minutes") >= MIN_MINUTES).groupBy(*REPLICA).agg(
            F.max(F.struct("minutes", "first", "others_bytes")).alias("worst")
        )  # fmt: skip
        found = held.once(long.select(*REPLICA, "worst.*"))
        rows = found.orderBy(F.desc("minutes"), *REPLICA).limit(MAX_REPLICAS).collect()
        in_turns = minutes.where("replicas > 1 and bytes > 0")
        share = F.col("bytes") * F.col("replicas") / (F.col("bytes") + F.col("others"))
        least = in_turns.select(*REPLICA, "minute", share.alias("share")).orderBy("share", *REPLICA).first()
        return Starved(minutes.count(), found.count(), tuple(rows), least)


def _caught_up_by(tables: Tables) -> DataFrame:
    """Return for each budget the bytes (`others`) that it brought to replicas that were behind, in the minutes in which
    there were any. To a replica that got nothing, all of them went to others."""
    behind = tables.seconds.where("throttled and not in_sync")
    moved = behind.groupBy(*ROLE, F.floor(F.col("time") / MINUTE).alias("minute")).agg(
        F.sum("record_bytes").alias("others")
    )
    return moved.where("others > 0")


def by_minute(traffic: DataFrame) -> DataFrame:
    """Return the replicas that were behind, and held back, in all of a minute: `bytes`, and the `day`."""
    held = F.count_if(~F.col("in_sync")).alias("behind")
    minute = F.floor(F.col("time") / MINUTE).alias("minute")
    of_replica = traffic.groupBy(*REPLICA, F.floor(F.col("time") / DAY_SECONDS).alias("day"), minute).agg(
        held, F.sum("record_bytes").alias("bytes"), F.sum("omitted").alias("omitted")
    )
    return of_replica.where((F.col("behind") >= WHOLE) & (F.col("omitted") > 0)).drop("behind", "omitted")


def shared(minutes: DataFrame) -> DataFrame:
    """Add the `others`, the bytes that other such replicas of the same budget got, and how many `replicas` there were,
    this one included."""
    budget = Window.partitionBy(*ROLE, "minute")
    return minutes.select(
        *REPLICA, "minute", "bytes",
        (F.sum("bytes").over(budget) - F.col("bytes")).alias("others"),
        F.count("*").over(budget).alias("replicas"),
    )  # fmt: skip


SUMMARY = Summary("held_minutes", lambda traffic: traffic.where("throttled"), by_minute)


def answer(found: Starved, units: Units) -> Answer:
    """Tell it; `number` is for how many minutes in a row the worst stood still."""
    if not found.minutes:
        return Answer(
            QUESTION, Verdict.UNKNOWN, "Nobody was held back for a whole minute, so that nobody could be starved.", 0.0,
            "min",
        )  # fmt: skip
    doubts = ["by whole minutes: who stood still for less is not seen"]
    if not found.replicas:
        least = found.least_share
        worst, evidence = "", tuple[str, ...]()
        if least is not None:
            worst = f"; the least was {least.share:.0%} of a fair share, {_name(least)}"
            at = moment(least.minute * MINUTE)
            evidence = (f"the least of a fair share: {least.share:.0%} in the minute from {at}, {_name(least)}",)
        return Answer(
            QUESTION, Verdict.GOOD,
            f"Nobody: of {counted(found.minutes, 'minute')} in which a replica was held back all through, none went by"
            f" without bytes for it twice in a row while others got some{worst}.",
            0.0, "min", evidence, tuple(doubts),
        )  # fmt: skip
    first = found.rows[0]
    sentence = (
        f"{_name(first)} stood still for {counted(first.minutes, 'minute')} from {moment(first.first)} while others"
        f" moved {units.size(first.others_bytes)} through the same quota"
    )
    more = f"; so did {counted(found.replicas - 1, 'more replica')}" if found.replicas > 1 else ""
    evidence = tuple(stood_still(row, units) for row in found.rows)
    doubts.append("a quota that is worth less than a batch of each replica a minute cannot serve all of them in one")
    return Answer(
        QUESTION, Verdict.BAD, f"{sentence}{more}.", float(first.minutes), "min", evidence, tuple(doubts), STATUS
    )


def stood_still(row: Row, units: Units) -> str:
    """Return who stood still, for how long, and what others got."""
    others = units.size(row.others_bytes)
    return f"{_name(row)}: {counted(row.minutes, 'minute')} from {moment(row.first)}, others {others}"


def _name(row: Row) -> str:
    way = f"{row.broker} to {row.peer}" if row.role == "leader" else f"{row.peer} to {row.broker}"
    return f"{printable(row.topic, keep='')}-{row.partition} from {way} (by broker {row.broker}'s quota as {row.role})"
