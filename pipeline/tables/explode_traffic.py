"""Traffic lines to rows: one per second and replica, and one per second of a link.

A line is about up to fifteen seconds (docs/journal.md). Its sums are exact: for each second over all its partitions,
and for each partition over all its seconds. What one partition moved in one second is told by its shape, as a part of
all it moved, to a few per cent of its largest second. DataFrame → DataFrame, Spark's functions alone, no shuffle.

Invariant: the rows of a partition add up to what the line says of it, and those of a second likewise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import REPLICAS, SECONDS, SHAPE_SILENT

from .schema import SECOND_ROWS, TRAFFIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_OF_LINE = ("v", "time", "broker", "run", "tick", "role", "peer", "throttled", "in_sync")
_SILENT = ord(SHAPE_SILENT)


def replica_seconds(lines: DataFrame) -> DataFrame:
    """Return rows of the traffic table, from traffic lines: one per second and replica of which there was news."""
    replicas = lines.select(*_OF_LINE, F.inline(F.arrays_zip(*(field.name for field in REPLICAS))))
    # Worked out once per replica, before the rows are unfolded: after that, it would be worked out again in every row.
    stepped = replicas.withColumn("steps", _steps(F.split("shapes", "")))
    last = F.element_at("steps", -1)
    whole = stepped.withColumn("all_said", last["said"]).withColumn("all_parts", last["parts"])
    # Of `posexplode` Spark would infer a filter, push it down, and work out the steps two times more.
    seconds = whole.select("*", F.posexplode_outer("steps")).where("col.code > 0")
    counted = seconds.select(
        "v", (F.col("time") + F.col("pos")).alias("time"), "run", (F.col("tick") + F.col("pos")).alias("tick"),
        F.col("tick").alias("line_tick"), "role", "peer", F.col("topics").alias("topic"),
        F.col("partitions").alias("partition"), "throttled", "in_sync", "broker",
        _part("record_bytes").alias("record_bytes"),
        (_part("record_bytes") + _part("header_bytes")).alias("wire_bytes"),
        _turn("fetches").alias("fetches"), _turn("omitted").alias("omitted"),
        _offset("if(all_parts > 0, col.parts - greatest(col.code - 1, 0), if(col.said > 1, 1, 0))")
        .alias("fetch_offset_before"),
        _offset("if(all_parts > 0, col.parts, 1)").alias("fetch_offset"),
        _between("high_watermark", F.col("col.said"), F.col("all_said")).alias("high_watermark"),
        "log_start_offset",
    )  # fmt: skip
    return _dated(counted, TRAFFIC)


def link_seconds(lines: DataFrame) -> DataFrame:
    """Return rows of the seconds table, from traffic lines: one per second of a link that moved or withheld anything,
    or asked for it while behind."""
    names = [field.name for field in SECONDS]
    seconds = lines.select(*_OF_LINE, F.posexplode(F.arrays_zip(*names)))
    rows = seconds.select(
        "v", (F.col("time") + F.col("pos")).alias("time"), "run", (F.col("tick") + F.col("pos")).alias("tick"),
        F.col("tick").alias("line_tick"), "role", "peer", "throttled", "in_sync", "broker",
        *(F.col(f"col.{name}").alias(name.removeprefix("second_")) for name in names),
    )  # fmt: skip
    news = (F.col("record_bytes") > 0) | (F.col("omitted") > 0) | (~F.col("in_sync") & (F.col("fetches") > 0))
    return _dated(rows.where(news), SECOND_ROWS)


def _dated(rows: DataFrame, schema: StructType) -> DataFrame:
    dated = rows.withColumn("date", F.to_date(F.timestamp_seconds("time")))
    return dated.select([F.col(field.name).cast(field.dataType) for field in schema])


def _steps(characters: Column) -> Column:
    """Return for each second its `code`; and from the first second up to this one, how many had news (`said`) and how
    many `parts` they had."""

    def step(so_far: Column, character: Column) -> Column:
        code, before = F.ascii(character) - _SILENT, F.element_at(so_far, -1)
        return F.array_append(
            so_far,
            F.struct(
                code.alias("code"),
                (before["said"] + (code > 0).cast("int")).alias("said"),
                (before["parts"] + F.greatest(code - 1, F.lit(0))).alias("parts"),
            ),
        )

    none = F.struct(F.lit(0).alias("code"), F.lit(0).alias("said"), F.lit(0).alias("parts"))
    return F.aggregate(characters, F.array(none), step, lambda steps: F.slice(steps, 2, F.size(characters)))


def _part(name: str) -> Column:
    """Return a second's share by the shape. The running sum is rounded, so that the shares add up to the whole."""
    until, parts = "col.parts", "(col.parts - greatest(col.code - 1, 0))"
    return F.expr(f"if(all_parts = 0, 0, {name} * {until} div all_parts - {name} * {parts} div all_parts)")


def _turn(name: str) -> Column:
    """Return a second's share if all seconds with news count the same."""
    return F.expr(f"{name} * col.said div all_said - {name} * (col.said - 1) div all_said")


def _offset(parts: str) -> Column:
    """Return where the replica stood when this many parts of its bytes had come.

    A replica without bytes moves at its first news.
    """
    return _between("fetch_offset", F.expr(parts), F.expr("greatest(all_parts, 1)"))


def _between(name: str, done: Column, of: Column) -> Column:
    """Interpolate between the value before the line and the one at its end. If the one before is not known, take the
    end's."""
    before, after = F.col(f"{name}_before"), F.col(name)
    known = before + F.floor((after - before) * done / of)
    return F.when(before < 0, after).otherwise(known)
