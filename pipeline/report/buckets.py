"""Every broker's role by buckets of time, and which brokers something was the matter with.

DataFrame in; out come at most `MAX_ROWS` rows of a heat map, or the ids of brokers. Invariant: a bucket says the worst
of its seconds as well as their mean, so that a second over the bound is seen however long the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..jobs.quotas import ROLE, UNLIMITED
from ..tables import CachedFrames

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame

MINUTE = 60
MAX_ROWS = 40
MAX_COLUMNS = 96
MAX_OUTLIERS = 1000
STEPS = (
    *(1, 2, 5, 10, 15, 20, 30), *(60 * each for each in (1, 2, 5, 10, 15, 20, 30)),
    *(3600 * each for each in (1, 2, 3, 4, 6, 12, 24)),
)  # fmt: skip
"""Seconds."""


class Columns(NamedTuple):
    """The squares of a row: from the second `began` on."""

    began: int
    seconds_per_column: int
    columns: int


class Cell(NamedTuple):
    """share: mean bytes over the quota; None: no quota, or one of 0. worst: of a second. bytes: that moved under a
    quota; None: there was none, or nobody spoke."""

    share: float | None
    worst: float | None
    broken: bool
    bytes: int | None = None


class Grid(NamedTuple):
    rows: tuple[tuple[int, str], ...]
    """Brokers and roles: those over their bound first, then those that stalled, then those most behind, then the
    busiest. If there are too many, the worst of each kind."""
    all_rows: int
    columns: Columns
    cells: dict[tuple[int, str, int], Cell]
    """The cells by broker, role and column; none where nobody spoke."""

    @property
    def most_share(self) -> float:
        """The share of the quota in a square; 1 at most."""
        return min(max((cell.share or 0.0 for cell in self.cells.values()), default=0.0), 1.0)


class LinkGrid(NamedTuple):
    rows: tuple[tuple[str, str], ...]
    """Links, by source and destination: those with the most replica-seconds behind first, seconds to come included."""
    all_rows: int
    columns: Columns
    cells: dict[tuple[str, str, int], float]
    """The mean number of replicas behind, by source, destination and column; none where nobody was."""

    @property
    def most(self) -> float:
        """The most replicas behind in a square."""
        return max(self.cells.values(), default=0.0)


def whole_step(seconds: int) -> int:
    """Return the next round length of time, of at least so many seconds: a square of 9 h 48 min would not begin at any
    hour that people know."""
    return next((step for step in STEPS if step >= seconds), -(-seconds // STEPS[-1]) * STEPS[-1])


def buckets(judged: DataFrame, progress: DataFrame, step: int) -> DataFrame:
    """Return one row per broker, role and `bucket` (its first second, a multiple of `step`): of the rates `bytes`,
    `limit`, `worst`, `worst_bytes` (each the largest of a second), `broken` (windows), of the lag `lag` (messages, the
    last), `most_lag`, the same in bytes as `lag_bytes` and `most_lag_bytes` (null if no byte was seen of whoever was
    behind), `behind`, `stalled` (seconds). Either side may be null.

    judged: what `audit.judged` says. progress: what `lag.progress` says.
    """
    bucket = (F.floor(F.col("time") / step) * step).alias("bucket")
    over = sum((F.col(f"`{name}`.over").cast("int") for name in ("1s", "11s")), F.lit(0))
    # In the second in which the first quota begins there is no limit of that second, but there is that quota.
    limit = F.when(F.col("limit") < UNLIMITED, F.col("limit")).otherwise(F.col("quota"))
    rates = judged.groupBy(*ROLE, bucket).agg(
        F.sum("bytes").alias("bytes"), F.max(limit).alias("limit"), F.max("1s.ratio").alias("worst"),
        F.max("bytes").alias("worst_bytes"),
        F.sum(F.when(F.col("enforce"), over).otherwise(0)).alias("broken"),
    )  # fmt: skip
    stalled = (F.col("lag") > 0) & (F.col("pace") <= 0)
    last = F.max_by(F.struct("lag", "remaining_bytes", "behind", "time"), "time").alias("last")
    lags = progress.where("lost = 0").groupBy(*ROLE, bucket).agg(
        last, F.max("lag").alias("most_lag"), F.max("remaining_bytes").cast("double").alias("most_lag_bytes"),
        F.count_if(stalled).alias("stalled"),
    )  # fmt: skip
    behind = lags.select(
        *ROLE, "bucket", "last.lag", "most_lag", F.col("last.remaining_bytes").cast("double").alias("lag_bytes"),
        "most_lag_bytes", "last.behind", F.col("last.time").alias("last_second"), "stalled",
    )  # fmt: skip
    return rates.join(behind, on=[*ROLE, "bucket"], how="full")


def outliers(by_bucket: DataFrame, others: Collection[int] = ()) -> list[int]:
    """Return the brokers that are in trouble: the worst of those over a bound, of those stalled, of the `others` that
    something is the matter with, of those behind at the end, then the second of each; last the others without a row.
    The two worst over a bound are often both ends of one link."""
    each = by_bucket.groupBy(*ROLE).agg(
        F.sum("broken").alias("broken"), F.sum("stalled").alias("stalled"),
        F.max_by("lag", "bucket").alias("messages"), F.max_by("lag_bytes", "bucket").alias("left"),
    ).na.fill(0)  # fmt: skip
    worst = (F.max(name).alias(name) for name in ("messages", "left"))
    of_broker = each.groupBy("broker").agg(*worst, F.sum("broken").alias("broken"), F.sum("stalled").alias("stalled"))
    is_other = F.col("broker").isin(list(others))
    rows = of_broker.where((F.col("broken") > 0) | (F.col("stalled") > 0) | (F.col("messages") > 0) | is_other)
    order = (F.desc("broken"), F.desc("stalled"), F.desc("left"), F.desc("messages"), F.col("broker"))
    kind = F.when(F.col("broken") > 0, 0).when(F.col("stalled") > 0, 1).when(is_other, 2).otherwise(3)
    placed = rows.withColumn("kind", kind).withColumn(
        "place", F.row_number().over(Window.partitionBy("kind").orderBy(*order))
    )
    found = [row.broker for row in placed.orderBy("place", "kind").limit(MAX_OUTLIERS).collect()]
    # Rates of peers may be all that bounded a broker: buckets are of a role's quota.
    return [*found, *sorted(set(others).difference(found))][:MAX_OUTLIERS]


def busiest(by_bucket: DataFrame) -> list[int]:
    """Return the broker that moved most, for a page without any trouble."""
    rows = by_bucket.groupBy("broker").agg(F.sum("bytes").alias("bytes")).na.fill(0)
    return [row.broker for row in rows.orderBy(F.desc("bytes"), "broker").limit(1).collect()]


def grid(by_bucket: DataFrame, began: int, ended: int, step: int) -> Grid:
    """Return the heat map: coarser buckets of the roles that matter most."""
    wide = -(-(ended - began // step * step + 1) // MAX_COLUMNS)
    wide = next((one for one in STEPS if one >= wide and one % step == 0), -(-wide // step) * step)
    first = began // wide * wide
    columns = (ended - first) // wide + 1
    roles = by_bucket.groupBy(*ROLE).agg(
        *(F.sum(name).alias(name) for name in ("broken", "stalled", "bytes")),
        *(F.max(name).alias(name) for name in ("most_lag_bytes", "most_lag")),
    ).na.fill(0)  # fmt: skip
    worst = (F.desc(name) for name in ("broken", "stalled", "most_lag_bytes", "most_lag", "bytes"))
    kind = F.when(F.col("broken") > 0, 0).when(F.col("stalled") > 0, 1).otherwise(2)
    place = F.row_number().over(Window.partitionBy("kind").orderBy(*worst, *ROLE)).alias("place")
    chosen = roles.withColumn("kind", kind).select(*ROLE, "kind", place).orderBy("place", "kind").limit(MAX_ROWS)
    keys = [(row.broker, row.role) for row in chosen.orderBy("kind", "place").collect()]
    wanted = by_bucket.sparkSession.createDataFrame(keys, "broker long, role string")
    column = F.floor((F.col("bucket") - first) / wide).cast("int").alias("column")
    rows = by_bucket.join(F.broadcast(wanted), on=list(ROLE), how="left_semi").groupBy(*ROLE, column).agg(
        F.sum("bytes").alias("bytes"), F.max("limit").alias("limit"), F.max("worst").alias("worst"),
        F.coalesce(F.sum("broken"), F.lit(0)).alias("broken"),
    )  # fmt: skip
    cells = {}
    for row in rows.collect():
        share = None if row.bytes is None or not row.limit else row.bytes / row.limit / wide
        cells[row.broker, row.role, row.column] = Cell(share, row.worst, row.broken > 0, row.bytes)
    return Grid(tuple(keys), roles.count(), Columns(first, wide, columns), cells)


def link_grid(behind: DataFrame, columns: Columns, to_come: Mapping[tuple[str, str], float]) -> LinkGrid:
    """Return the heat map of links: each replica once, as the end saw it that saw it behind for longer.

    behind: what `moves.times_behind` says. to_come: for how many replica-seconds more a link will be behind; infinity:
    for ever.
    """
    width = columns.seconds_per_column
    minutes = behind.select("source", "destination", "role", F.inline("minutes"))
    seconds = F.bit_count("active")
    at = F.col("minute") * MINUTE
    if width % MINUTE:
        # A square is shorter than a minute.
        minutes = minutes.withColumn("second", F.explode(F.sequence(F.lit(0), F.lit(MINUTE - 1))))
        seconds = F.getbit("active", F.col("second")).cast("int")
        at += F.col("second")
    column = F.floor((at - columns.began) / width).cast("int").alias("column")
    ends = minutes.groupBy("source", "destination", "role", column).agg(F.sum(seconds).alias("seconds"))
    each = ends.groupBy("source", "destination", "column").agg(F.max("seconds").alias("seconds"))
    with CachedFrames() as held:
        each = held.once(each.where(F.col("column").between(0, columns.columns - 1) & (F.col("seconds") > 0)))
        links = each.groupBy("source", "destination").agg(F.sum("seconds").alias("seconds"))
        spark, link = each.sparkSession, "source string, destination string"
        coming = spark.createDataFrame([(*one, more) for one, more in to_come.items()], f"{link}, more double")
        judged = links.join(F.broadcast(coming), on=["source", "destination"], how="left")
        longest = F.desc(F.col("seconds") + F.coalesce("more", F.lit(0.0)))
        chosen = judged.orderBy(longest, "source", "destination").limit(MAX_ROWS).collect()
        names = [(row.source, row.destination) for row in chosen]
        wanted = spark.createDataFrame(names, link)
        rows = each.join(F.broadcast(wanted), on=["source", "destination"], how="left_semi").collect()
        cells = {(row.source, row.destination, row.column): row.seconds / width for row in rows}
        return LinkGrid(tuple(names), links.count(), columns, cells)
