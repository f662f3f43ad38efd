"""Replays of what was recorded, or of what is planned, under other quotas: scenarios beside each other.

The demand comes from the tables (who was behind by how much, what was written meanwhile) or from a plan; the model is
`pipeline.model.simulation`, whose decisions are the sidecar's own. Scenarios run in parallel, and of each scenario the
links that share no budget (`components`).

Invariant: demand is per link, not per partition, so that one scenario's input stays small however large the journals:
brokers squared times seconds at most.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..jobs.link_ends import REPLICA, one_end
from ..jobs.partition_sizes import SUMMARY, partition_sizes, whole
from .simulation import Flow, Quotas, Scenario, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ..jobs.inner_rates import Bound
    from .fluid import Stream

LINK = ("source", "destination")
MAX_TASKS = 200
MAX_SECONDS = 7 * 86_400.0
"""How long one link is simulated, from its own start: journals may span many weeks."""

RESULT = (
    "finishes array<struct<source: string, destination: string, began: double, finished: double>>,"
    " seconds array<struct<broker: string, role: string, second: long, bytes: double>>"
)


class WhatIf(NamedTuple):
    """A scenario as it was asked for: one quota for all leaders and one for all followers. None: no quota."""

    name: str
    policy: str
    leader_bytes_per_second: float | None
    follower_bytes_per_second: float | None

    def quotas(self, links: Iterable[Flow | Stream]) -> Quotas:
        found: Quotas = {}
        for link in links:
            if self.leader_bytes_per_second is not None:
                found[link.source, "leader"] = self.leader_bytes_per_second
            if self.follower_bytes_per_second is not None:
                found[link.destination, "follower"] = self.follower_bytes_per_second
        return found

    def scenario(self, flows: Sequence[Flow], line_bytes_per_second: float, bounds: tuple[Bound, ...] = ()) -> Scenario:
        quotas = self.quotas(flows)
        return Scenario(self.name, self.policy, quotas, line_bytes_per_second, most_seconds=MAX_SECONDS, bounds=bounds)


def demand(traffic: DataFrame) -> DataFrame:
    """Return per link `starts` (seconds since the first line of all), `backlog_bytes` (what its partitions were behind
    when first seen behind), `partitions`, `written` (bytes per second of what was written to them from then on, as
    (second since it starts, bytes) pairs)."""
    seen = one_end(traffic.where("throttled"))
    sizes = partition_sizes(whole(SUMMARY.of(traffic.where("throttled")))).select(
        "source", "topic", "partition", "bytes_per_message"
    )
    in_order = Window.partitionBy(*REPLICA).orderBy("time")
    first_behind = F.min(F.when(F.col("behind"), F.col("time"))).over(Window.partitionBy(*REPLICA))
    watermark = F.when(F.col("high_watermark") >= 0, F.col("high_watermark"))
    before = F.last("watermark", ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    # Until a high watermark is known, nobody knows what was written: it is in the backlog.
    onwards = in_order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    lines = (
        seen.withColumn("first_behind", first_behind)
        .where(F.col("time") >= F.col("first_behind"))
        .withColumn("watermark", watermark)
        .withColumn("written", F.greatest(F.col("watermark") - before, F.lit(0)))
        .withColumn("first_watermark", F.first("watermark", ignorenulls=True).over(onwards))
        .join(F.broadcast(sizes), on=["source", "topic", "partition"], how="left")
    )
    zero = traffic.agg(F.min("time").alias("zero"))
    each = F.coalesce("bytes_per_message", F.lit(0.0))
    starting = F.col("time") == F.col("first_behind")
    behind_by = F.greatest(F.col("first_watermark") - F.col("fetch_offset_before"), F.lit(0))
    backlog = F.when(starting, behind_by * each)
    per_second = lines.groupBy(*LINK, "time").agg(
        F.sum(F.when(~starting, F.col("written") * each)).alias("bytes"),
        F.sum(backlog).alias("backlog_bytes"),
        F.countDistinct("topic", "partition").alias("partitions"),
    )
    begins = F.min("time").over(Window.partitionBy(*LINK))
    written = F.struct((F.col("time") - F.col("begins")).alias("second"), "bytes")
    return (
        per_second.withColumn("begins", begins)
        .crossJoin(F.broadcast(zero))
        .groupBy(*LINK)
        .agg(
            F.min(F.col("begins") - F.col("zero")).cast("double").alias("starts"),
            F.sum("backlog_bytes").alias("backlog_bytes"),
            F.max("partitions").alias("partitions"),
            F.sort_array(F.collect_list(F.when(F.col("bytes") > 0, written))).alias("written"),
        )
    )


def flows_of(demand_rows: DataFrame) -> list[Flow]:
    """Bring the demand to where scenarios are made: one row per pair of brokers."""
    flows = []
    for row in demand_rows.orderBy(*LINK).collect():
        arrivals = [0.0] * (1 + max((pair.second for pair in row.written), default=-1))
        for pair in row.written:
            arrivals[pair.second] = pair.bytes
        flows.append(Flow(row.source, row.destination, row.backlog_bytes, row.partitions, row.starts, tuple(arrivals)))
    return flows


def replay(
    spark: SparkSession,
    flows: Sequence[Flow],
    what_ifs: Sequence[WhatIf],
    *,
    line_bytes_per_second: float,
    bounds: tuple[Bound, ...] = (),
) -> DataFrame:
    """Return one row per scenario and component of links: `name`, `policy`, `finishes` per link, `seconds` per broker,
    role and second. `bounds`: rates of peers and racks, in every scenario."""

    def run(
        index: int, links: list[int]
    ) -> tuple[list[tuple[str, str, float, float | None]], list[tuple[str, str, int, float]]]:
        mine = [flows[link] for link in links]
        outcome = simulate(mine, what_ifs[index].scenario(mine, line_bytes_per_second, bounds))
        finishes = [
            (flow.source, flow.destination, flow.starts, finished)
            for flow, finished in zip(mine, outcome.finished, strict=True)
        ]
        return finishes, [(*key, size) for key, size in sorted(outcome.moved.items())]

    # No Spark function decides whether a budget is spent; the sidecar's code does, and it is Python.
    simulated = F.udf(run, RESULT, useArrow=False)
    rows = [
        (index, one.name, one.policy, links)
        for index, one in enumerate(what_ifs)
        for links in components(flows, one.quotas(flows), bounds)
    ]
    schema = "index int, name string, policy string, links array<int>"
    scenarios = spark.createDataFrame(rows, schema).repartition(min(len(rows), MAX_TASKS))
    return scenarios.withColumn("result", simulated("index", "links")).select("name", "policy", "result.*")


def components(flows: Sequence[Flow], quotas: Quotas, bounds: Sequence[Bound] = ()) -> list[list[int]]:
    """Return the flows' indices by component: links that share a budget, and all connected by such pairs.

    Links of two components never ask the same budget, so each may be replayed by itself, elsewhere, with the same
    result. A flow without a budget is a component by itself.
    """
    budgets = {*quotas, *((bound.broker, bound.role) for bound in bounds)}
    of_budget: dict[tuple[str, str], int] = {}
    parents = list(range(len(flows)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = index = parents[parents[index]]
        return index

    for index, flow in enumerate(flows):
        for budget in ((flow.source, "leader"), (flow.destination, "follower")):
            if budget in budgets:
                parents[root(index)] = root(of_budget.setdefault(budget, index))
    found: dict[int, list[int]] = defaultdict(list)
    for index in range(len(flows)):
        found[root(index)].append(index)
    return list(found.values())


def durations(replayed: DataFrame) -> DataFrame:
    """Return one row per scenario and link: `seconds` from its start until it had caught up; null: not within a week of
    it."""
    each = replayed.select("name", "policy", F.inline("finishes"))
    return each.select("name", "policy", *LINK, "began", (F.col("finished") - F.col("began")).alias("seconds"))


def peaks(replayed: DataFrame) -> DataFrame:
    """Return one row per scenario, broker and role: worst second, worst eleven, and the mean of busy seconds."""
    # A broker's links may be in several components, where its own role has no quota.
    parts = replayed.select("name", "policy", F.inline("seconds"))
    role = ("name", "policy", "broker", "role")
    each = parts.groupBy(*role, "second").agg(F.sum("bytes").alias("bytes"))
    eleven = Window.partitionBy(*role).orderBy("second").rangeBetween(-10, Window.currentRow)
    return (
        each.withColumn("eleven", F.sum("bytes").over(eleven) / 11)
        .groupBy(*role)
        .agg(
            F.max("bytes").alias("worst_second"),
            F.max("eleven").alias("worst_eleven"),
            F.avg("bytes").alias("mean"),
        )
    )
