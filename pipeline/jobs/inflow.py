"""What brokers take in while in sync: KIP-73's lower bound of a quota under which catching up ends.

DataFrame → DataFrame. Invariant: only what the journals saw is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUSIEST = 0.95
"""The share of minutes that an inflow is not exceeded in: a quota has to hold in all but the busiest few."""


def inflow(traffic: DataFrame) -> DataFrame:
    """Return per broker `inflow_bytes_per_second`, what it fetched while in sync, in all but its busiest minutes.
    Minutes are counted from the first second in which it fetched anything to the last such second. The last minute
    counts with the length that it has, and one in which nothing came as nothing: rows do not tell an idle broker from a
    sidecar that did not run.

    traffic: rows of the traffic or, exact in every second, of the seconds table.
    """
    of_broker = Window.partitionBy("broker")
    fetched = _fetched(traffic).withColumns(
        {"first": F.min("time").over(of_broker), "last": F.max("time").over(of_broker)}
    )
    minute = F.floor((F.col("time") - F.col("first")) / 60)
    in_all = F.max("last") - F.max("first") + 1
    length = F.least(F.lit(60), in_all - 60 * F.col("minute"))
    minutes = (
        fetched.withColumn("minute", minute)
        .groupBy("broker", "minute")
        .agg((F.sum("bytes") / length).alias("rate"), F.ceil(in_all / 60).alias("in_all"))
    )
    one = F.struct("rate", F.lit(1).cast("long").alias("minutes"))
    silent = F.struct(F.lit(0.0).alias("rate"), (F.max("in_all") - F.count("*")).alias("minutes"))
    told = minutes.groupBy("broker").agg(F.array_append(F.collect_list(one), silent).alias("rates"))
    each = told.select("broker", F.inline("rates")).where("minutes > 0")
    return each.groupBy("broker").agg(
        F.percentile("rate", F.lit(BUSIEST), F.col("minutes")).alias("inflow_bytes_per_second")
    )


def _fetched(traffic: DataFrame) -> DataFrame:
    """Return per broker and second the `bytes` that it fetched in sync: as its own sidecar tells, or, where that
    records no fetches, as the sidecars of its leaders do, as far as these are there."""
    leads = F.col("role") == "leader"
    fetcher = F.when(leads, F.expr("try_cast(peer as bigint)")).otherwise(F.col("broker"))
    size = F.when(F.col("in_sync"), F.col("record_bytes")).otherwise(0)
    seconds = traffic.groupBy(fetcher.alias("broker"), (~leads).alias("own"), "time").agg(F.sum(size).alias("bytes"))
    best = F.max("own").over(Window.partitionBy("broker"))
    known = seconds.where("broker is not null").withColumn("best", best)
    return known.where(F.col("own") == F.col("best"))
