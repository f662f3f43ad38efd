"""What the page says: tables of at most some hundred rows each, however much was recorded.

DataFrame in, values out. Invariant: what is left out for size is said, never silently cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from .. import audit, lag, moves, replay
from ..errors import InputError
from ..quotas import ROLE, with_limit
from ..rates import LEVELS, per_second
from ..tables import accounted_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from ..tables import Tables

MOST_POINTS = 300
MOST_SERIES = 12
MOST_ROWS = 30
MOST_TOPICS = 8
LINE_BYTES_PER_SECOND = 125_000_000.0
QUOTA_FACTORS = (0.5, 1.0, 2.0)


class Point(NamedTuple):
    time: int
    mean: float
    most: float
    """Of a second, within the point."""
    limit: float | None


class Series(NamedTuple):
    broker: int
    role: str
    points: tuple[Point, ...]


class LagPoint(NamedTuple):
    time: int
    lag: float
    eta_seconds: float | None
    drain: float | None = None
    """Messages per second by which it shrinks; None: not known yet."""


@dataclass(frozen=True, slots=True)
class Facts:
    began: int
    ended: int
    bytes: int
    brokers: int
    seconds_per_point: int
    series: tuple[Series, ...]
    all_series: int
    audit: tuple[Row, ...]
    evidence: tuple[Row, ...]
    all_evidence: int
    lag: dict[tuple[int, str], tuple[LagPoint, ...]]
    stalls: tuple[Row, ...]
    moves: tuple[Row, ...]
    all_moves: int
    topics: tuple[tuple[str, int], ...]
    what_if: tuple[Row, ...]
    files: dict[str, int]
    quarantined: int

    @property
    def verdict(self) -> str:
        """`kept`, `broken`, `observed only` (no quota was enforced) or `none` (there was none)."""
        enforced = [row.kept for row in self.audit if row.kept is not None]
        if not enforced:
            return "observed only" if self.audit else "none"
        return "kept" if all(enforced) else "broken"


def collect(spark: SparkSession, tables: Tables) -> Facts:
    """Work out all of it. Raises InputError if there is no traffic to tell of."""
    traffic, exact, events = tables.traffic.cache(), tables.seconds.cache(), tables.events.cache()
    whole = traffic.agg(
        F.min("time").alias("began"), F.max("time").alias("ended"), F.countDistinct("broker").alias("brokers"),
        F.sum(F.when(F.col("throttled"), accounted_bytes())).alias("bytes"),
    ).first()  # fmt: skip
    if whole is None or whole.began is None:
        raise InputError(f"{tables.storage.root}: no traffic in the tables: nothing to report")
    step = max(math.ceil((whole.ended - whole.began + 1) / MOST_POINTS), 1)
    seconds = audit.seconds_with_quota(exact, events).cache()
    over = audit.incidents(audit.violations(seconds).where("enforce")).cache()
    progress = lag.progress(lag.sum_replica_lag(lag.per_replica(traffic.where("throttled"))), events).cache()
    found_moves = moves.moves(traffic, events, exact).cache()
    series = _series(exact, events, step)
    files = tables.files.groupBy("state").agg(F.count("*").alias("n"), F.sum("quarantined").alias("bad")).collect()
    return Facts(
        began=whole.began,
        ended=whole.ended,
        bytes=whole.bytes or 0,
        brokers=whole.brokers,
        seconds_per_point=step,
        series=series[:MOST_SERIES],
        all_series=len(series),
        audit=tuple(audit.summary(seconds).collect()),
        evidence=tuple(over.orderBy(F.desc("ratio")).limit(MOST_ROWS).collect()),
        all_evidence=over.count(),
        lag=_lag(progress, step),
        stalls=tuple(_stalls(lag.stalls(progress, exact, events)).collect()),
        moves=tuple(found_moves.orderBy(F.desc("seconds"), *moves.MOVE).limit(MOST_ROWS).collect()),
        all_moves=found_moves.count(),
        topics=_topics(traffic),
        what_if=_what_if(spark, traffic, seconds),
        files={row.state: row.n for row in files},
        quarantined=sum(row.bad for row in files),
    )


def _series(link_seconds: DataFrame, events: DataFrame, step: int) -> tuple[Series, ...]:
    """Every broker's roles, the busiest first."""
    seconds = with_limit(per_second(link_seconds, LEVELS["broker"]), events)
    point = (F.floor(F.col("time") / step) * step).alias("point")
    points = seconds.groupBy(*ROLE, point).agg(
        (F.sum("bytes") / step).alias("mean"), F.max("bytes").alias("most"), F.max("limit").alias("limit")
    )
    found: dict[tuple[int, str], list[Point]] = {}
    for row in points.orderBy(*ROLE, "point").collect():
        limit = row.limit if row.limit is not None and math.isfinite(row.limit) else None
        found.setdefault((row.broker, row.role), []).append(Point(row.point, row.mean, float(row.most), limit))
    series = [Series(broker, role, tuple(points)) for (broker, role), points in found.items()]
    return tuple(sorted(series, key=lambda one: -sum(point.mean for point in one.points)))


def _lag(progress: DataFrame, step: int) -> dict[tuple[int, str], tuple[LagPoint, ...]]:
    point = (F.floor(F.col("time") / step) * step).alias("point")
    # Silence is not progress: a recording that ends while replicas are behind ends with them behind.
    progress = progress.where(F.col("lost") == 0)
    last = F.max_by(F.struct("lag", "eta_seconds", "drain"), "time").alias("last")
    found: dict[tuple[int, str], list[LagPoint]] = {}
    for row in progress.groupBy(*ROLE, point).agg(last).orderBy(*ROLE, "point").collect():
        found.setdefault((row.broker, row.role), []).append(LagPoint(row.point, *row.last))
    return {key: tuple(points) for key, points in found.items()}


def _stalls(rows: DataFrame) -> DataFrame:
    return (
        rows.groupBy(*ROLE, "cause")
        .agg(F.count("*").alias("seconds"), F.min("time").alias("first"), F.max("time").alias("last"))
        .orderBy(F.desc("seconds"))
        .limit(MOST_ROWS)
    )


def _topics(traffic: DataFrame) -> tuple[tuple[str, int], ...]:
    # Where both ends of a link keep a journal, its bytes are there twice; the larger side is the whole.
    by_role = traffic.where("throttled").groupBy("topic", "role").agg(F.sum("record_bytes").alias("bytes"))
    rows = by_role.groupBy("topic").agg(F.max("bytes").alias("bytes")).orderBy(F.desc("bytes"), "topic").collect()
    found = [(row.topic, row.bytes) for row in rows[:MOST_TOPICS]]
    rest = sum(row.bytes for row in rows[MOST_TOPICS:])
    return tuple([*found, (f"{len(rows) - MOST_TOPICS} others", rest)] if rest else found)


def _what_if(spark: SparkSession, traffic: DataFrame, seconds: DataFrame) -> tuple[Row, ...]:
    """The same demand at half, the same and twice the quota that leaders had last (else followers)."""
    flows = replay.flows_of(replay.demand(traffic))
    quota = seconds.groupBy("role").agg(F.max_by("limit", "time").alias("limit")).orderBy(F.desc("role")).first()
    if not flows or quota is None or not quota.limit:
        return ()
    what_ifs = []
    for factor in QUOTA_FACTORS:
        rates = (quota.limit * factor, None) if quota.role == "leader" else (None, quota.limit * factor)
        what_ifs.append(replay.WhatIf(f"{factor:g}", "strict", *rates))
    replayed = replay.replay(spark, flows, what_ifs, line_bytes_per_second=LINE_BYTES_PER_SECOND).cache()
    slowest = (
        replay.durations(replayed).groupBy("name").agg(F.max(F.coalesce("seconds", F.lit(math.inf))).alias("seconds"))
    )
    worst = replay.peaks(replayed).groupBy("name").agg(F.max("worst_second").alias("worst_second"))
    joined = slowest.join(worst, "name", "left").withColumn("role", F.lit(quota.role))
    rate = F.col("name").cast("double") * quota.limit
    return tuple(joined.withColumn("bytes_per_second", rate).orderBy("bytes_per_second").collect())
