"""A replica's times behind: from its first second behind to its first in sync, as each end saw it.

DataFrame → DataFrame. They are told day by day first (`by_day`), which is what can be kept (`daily_summaries`), and
then put together over midnights (`whole`). Invariant: an end's times behind of a replica do not overlap, and each of
its seconds behind is in exactly one, however the days were cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import LINE_SECONDS

from ..tables.daily_summaries import DAY_SECONDS, Summary
from ..tables.schema import TIMES_BEHIND
from .lag import HELD_SECONDS
from .link_ends import END, own_broker, seconds_of_ends

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

BITS = 60
"""The seconds of a minute: a minute is a number with a bit for each second."""


def episodes(ends: DataFrame) -> DataFrame:
    """Number each end's times behind of a replica: its seconds behind and the one that ended each, with `active` (it is
    one of those behind), `caught_up`, `was_open` (it goes on from the second before), and `moved`, the bytes that
    count. What is said of a second depends on those that are at most two silences (`HELD_SECONDS`) away.

    A follower counts as in sync on a new connection, on which nothing is known of it yet. So its first answers are in a
    line that says in sync, though it is behind. Such a *contact* belongs to the move. It is recognised by what comes
    next, because its offsets are interpolated up to where it was really in sync. As the last word its offset is exact:
    short of the high watermark that was known it is no end.
    """
    in_order = Window.partitionBy(*END).orderBy("time")
    told = ends.select("*", *_neighbours(in_order))
    new = F.col("gap").isNull() | (F.col("gap") > HELD_SECONDS)
    soon_behind = F.coalesce((F.col("next_gap") <= LINE_SECONDS) & F.col("next_behind"), F.lit(False))
    goes_back = soon_behind & (F.col("next_behind_offset") < F.col("sync_offset"))
    was_behind = F.coalesce(~new & F.col("before_behind"), F.lit(False))
    reconnects = was_behind & (F.col("sync_offset") < F.col("before_watermark"))
    unknown = new & (F.col("sync_offset") < F.col("sync_watermark"))
    in_sync_next = F.coalesce((F.col("next_gap") <= HELD_SECONDS) & ~F.col("next_behind"), F.lit(False))
    contact = F.col("in_sync") & ((soon_behind & (goes_back | unknown)) | (reconnects & ~in_sync_next))
    caught_up = F.col("behind") & F.col("in_sync") & ~goes_back & (F.col("sync_offset") >= F.col("behind_watermark"))
    all_counts = contact | (F.col("in_sync") & (new | (was_behind & ~caught_up)))
    marked = told.select(
        *END, "time", "fetch_offset_before", "fetch_offset_reached", "high_watermark",
        (F.col("behind") | contact).alias("active"),
        F.coalesce(caught_up, F.lit(False)).alias("caught_up"),
        F.when(all_counts, F.col("bytes")).otherwise(F.col("behind_bytes")).alias("moved"),
        (F.col("gap") <= HELD_SECONDS).alias("follows"),
    )  # fmt: skip
    goes_on = F.col("active") & ~F.col("caught_up")
    was_open = F.coalesce(F.lag(goes_on).over(in_order) & F.col("follows"), F.lit(False))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    opened = marked.withColumn("was_open", was_open)
    begins = F.col("active") & ~F.col("was_open")
    return opened.withColumn("number", F.sum(begins.cast("int")).over(so_far)).where("active or was_open")


def _neighbours(in_order: WindowSpec) -> tuple[Column, ...]:
    return (
        (F.col("time") - F.lag("time").over(in_order)).alias("gap"),
        F.lag("behind").over(in_order).alias("before_behind"),
        F.lag("behind_watermark").over(in_order).alias("before_watermark"),
        (F.lead("time").over(in_order) - F.col("time")).alias("next_gap"),
        F.lead("behind").over(in_order).alias("next_behind"),
        F.lead("behind_offset").over(in_order).alias("next_behind_offset"),
    )


def by_day(rows: DataFrame) -> DataFrame:
    """Return one row per end, time behind and day of it (`schema.TIMES_BEHIND`), from `episodes`; `minutes` is a number
    for each minute with a bit for each of its seconds behind."""
    active = F.col("active")
    known = F.when(active & (F.col("high_watermark") >= 0), F.col("time"))
    day = F.floor(F.col("time") / DAY_SECONDS).alias("day")
    minute = F.floor(F.col("time") / BITS).alias("minute")
    minutes = rows.groupBy(own_broker().alias("broker"), *END, "number", day, minute).agg(
        F.bool_or(~F.col("was_open")).alias("opens"),
        F.min("time").alias("began"),
        F.max("time").alias("ended"),
        F.bool_or(F.col("caught_up") | ~active).alias("finished"),
        F.sum(F.when(active, F.col("moved"))).alias("bytes"),
        F.min("fetch_offset_before").alias("from_offset"),
        F.max("fetch_offset_reached").alias("to_offset"),
        F.min_by("high_watermark", known).alias("from_watermark"),
        F.min(known).alias("first_known"),
        F.max_by("high_watermark", known).alias("to_watermark"),
        F.max(known).alias("last_known"),
        F.bit_or(F.when(active, second_bit())).alias("active"),
    )
    seconds = F.when(F.col("active").isNotNull(), F.struct("minute", "active"))
    told = minutes.groupBy("broker", *END, "number", "day").agg(
        *_together(), F.collect_list(seconds).alias("minutes"),
    )  # fmt: skip
    return told.select("day", "broker", *TIMES_BEHIND.names)


def second_bit() -> Column:
    """Return the bit of the second in its minute."""
    second = F.pmod(F.col("time"), F.lit(BITS)).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("long"), second)


def _together() -> tuple[Column, ...]:
    """Join the parts of a time behind."""
    return (
        *(F.bool_or(name).alias(name) for name in ("opens", "finished")),
        *(F.min(name).alias(name) for name in ("began", "from_offset", "first_known")),
        *(F.max(name).alias(name) for name in ("ended", "to_offset", "last_known")),
        F.sum("bytes").alias("bytes"),
        F.min_by("from_watermark", "first_known").alias("from_watermark"),
        F.max_by("to_watermark", "last_known").alias("to_watermark"),
    )


def whole(days: DataFrame) -> DataFrame:
    """Return one row per end and time behind (`number`), from `by_day` of all its days; `seconds` is how long."""
    in_order = Window.partitionBy(*END).orderBy("began")
    number = F.sum(F.col("opens").cast("int")).over(
        in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )  # fmt: skip
    parts = days.withColumn("number", number).groupBy(*END, "number")
    told = parts.agg(*_together(), F.flatten(F.collect_list("minutes")).alias("minutes"))
    seconds = F.col("ended") - F.col("began") + F.when(F.col("finished"), 0).otherwise(1)
    return told.withColumn("seconds", F.greatest(seconds, F.lit(1))).drop("opens", "first_known", "last_known")


SUMMARY = Summary("times_behind", lambda traffic: episodes(seconds_of_ends(traffic.where("throttled"))), by_day)
