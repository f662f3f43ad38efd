"""Which brokers something was the matter with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.report.buckets import buckets, outliers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = "struct<ratio: double, over: boolean>"
JUDGED = (
    f"broker long, role string, time long, bytes long, `limit` double, enforce boolean, `1s` {WINDOW}, `11s` {WINDOW}"
)
PROGRESS = (
    "broker long, role string, time long, lag long, behind long, moved long, record_bytes long, lost long,"
    " drain double, eta_seconds double, eta_low double, eta_high double"
)


def test_that_the_next_move_begins_is_nothing_out_of_the_ordinary(spark: SparkSession) -> None:
    """Of 101 one replica moves on, and after half a minute there is another; of 102 nothing moves. Both are done in the
    end."""
    rows = [
        (broker, "leader", at, 0 if at == 90 else 1000 + at, 1 + (at >= 30), moved, moved, 0, -1.0, None, None, None)
        for broker, moved in ((101, 5), (102, 0))
        for at in range(91)
    ]
    rows = [row for row in rows if row[0] == 102 or row[2] == 90 or 30 <= row[2] < 60]
    rows[:0] = [(101, "leader", 29, 1000, 1, 5, 5, 0, 1.0, None, None, None)]
    found = buckets(spark.createDataFrame([], JUDGED), spark.createDataFrame(rows, PROGRESS), 10)
    assert outliers(found) == [102]
