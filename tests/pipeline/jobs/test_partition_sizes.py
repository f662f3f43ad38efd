"""How large partitions are, also if a replica was fetched again, or the start of the log passed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.jobs.partition_sizes import SUMMARY, partition_sizes, whole
from pipeline.tables.daily_summaries import DAY_SECONDS
from tests.pipeline.frames import traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fetched(*, at: int, since: int, until: int, **values: Any) -> dict[str, Any]:
    """A second in which offsets came, 100 bytes each."""
    size = 100 * (until - since)
    return {"at": at, "fetch_offset_before": since, "fetch_offset": until, "high_watermark": 1000,
            "record_bytes": size, **values}  # fmt: skip


def size_bytes(spark: SparkSession, rows: list[dict[str, Any]]) -> float:
    (row,) = partition_sizes(whole(SUMMARY.of(traffic(spark, rows)))).collect()
    return float(row.size_bytes)


@pytest.mark.parametrize("later", [100, DAY_SECONDS])
def test_what_is_fetched_again_counts_again(spark: SparkSession, later: int) -> None:
    """A disk was replaced, or the replica moved away and back: all 1000 messages come twice, at a distance."""
    rows = [
        fetched(at=first + at, since=100 * at, until=100 * (at + 1)) for first in (0, later) for at in range(10)
    ]  # fmt: skip
    assert size_bytes(spark, rows) == pytest.approx(100_000)


def test_what_the_start_of_the_log_passed_was_never_brought(spark: SparkSession) -> None:
    """The replica stood at 1000 when retention deleted all before 90000: the next answer is from there."""
    now = {"high_watermark": 100_000, "log_start_offset": 90_000}
    rows = [
        fetched(at=0, since=0, until=1000, high_watermark=100_000),
        fetched(at=1, since=1000, until=90_010, **now, record_bytes=1000),
        fetched(at=2, since=90_010, until=90_020, **now),
    ]
    assert size_bytes(spark, rows) == pytest.approx(1_000_000)


def test_lines_of_one_block_that_tell_of_the_same_offsets_count_once(spark: SparkSession) -> None:
    """A replica that catches up within a block is in two lines, and offsets within each are interpolated."""
    rows = [
        fetched(at=0, since=0, until=1000, record_bytes=20_000, in_sync=True, line_tick=0),
        fetched(at=0, since=200, until=600, line_tick=0),
        fetched(at=1, since=600, until=1000, line_tick=0),
    ]
    assert size_bytes(spark, rows) == pytest.approx(100_000)


def test_a_block_in_which_a_replica_began_anew_tells_no_size(spark: SparkSession) -> None:
    """Its line goes from 1000 to 300, and its bytes may be of any offsets."""
    rows = [
        fetched(at=0, since=0, until=1000),
        fetched(at=15, since=1000, until=650, record_bytes=900_000, line_tick=15),
        fetched(at=16, since=650, until=300, record_bytes=900_000, line_tick=15),
        fetched(at=30, since=300, until=500),
    ]
    assert size_bytes(spark, rows) == pytest.approx(100_000)
